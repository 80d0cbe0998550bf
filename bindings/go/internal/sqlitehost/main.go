// sqlitehost MODEL STORE: a program with an SQLite of its own beside kvrt. It uses both at once and prints what SQLite answers, or exits 3 where kvrt
// refuses to live with it. The tag archive links SQLite into the program; without, both have the system's shared library.
package main

/*
#cgo !archive LDFLAGS: -lsqlite3
#cgo archive LDFLAGS: -l:libsqlite3.a -lm -ldl
#include <sqlite3.h>
#include <stdlib.h>

static sqlite3* db;

static const char* add(const char* text) {
  sqlite3_stmt* s = NULL;
  if (!db && sqlite3_open(":memory:", &db)) return "open";
  if (sqlite3_exec(db, "create table if not exists said (what text)", NULL, NULL, NULL)) return sqlite3_errmsg(db);
  if (sqlite3_prepare_v2(db, "insert into said values (?)", -1, &s, NULL)) return sqlite3_errmsg(db);
  sqlite3_bind_text(s, 1, text, -1, SQLITE_TRANSIENT);
  sqlite3_step(s);
  return sqlite3_finalize(s) ? sqlite3_errmsg(db) : NULL;
}

static int count(void) {
  sqlite3_stmt* s = NULL;
  int n = sqlite3_prepare_v2(db, "select count(*) from said", -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int(s, 0) : -1;
  sqlite3_finalize(s);
  return n;
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"kvrt.dev/kvrt"
)

func must(err error) {
	if errors.Is(err, kvrt.StatusUnsupported) {
		fmt.Println(err)
		os.Exit(3)
	}
	if err != nil {
		panic(err)
	}
}

func add(text string) error {
	t := C.CString(text)
	defer C.free(unsafe.Pointer(t))
	if failure := C.add(t); failure != nil {
		return errors.New(C.GoString(failure))
	}
	return nil
}

func main() {
	must(add("before"))
	runtime, err := kvrt.OpenRuntime(&kvrt.RuntimeOptions{Threads: 1})
	must(err)
	defer runtime.Close()
	model, err := runtime.OpenModel(context.Background(), os.Args[1], nil, nil)
	must(err)
	defer model.Close()
	store, err := runtime.OpenStore(os.Args[2], nil)
	must(err)
	defer store.Close()
	session, err := model.OpenSession(&kvrt.SessionOptions{Store: store})
	must(err)
	defer session.Close()
	must(session.Append([]int32{5, 6, 7}))
	_, err = session.Generate(context.Background(), &kvrt.GenerateOptions{MaxTokens: 4, IgnoreEOS: true}, func(e kvrt.Event) error {
		if e.Type != kvrt.EventToken {
			return nil
		}
		return add(e.Text) // both in one callback
	})
	must(err)
	_, err = session.Checkpoint("ann", nil)
	must(err)
	must(store.Verify(context.Background(), nil))
	fmt.Println("worked:", C.count(), "rows")
}
