package kvrt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

type described struct {
	Functions map[string]any
	Enums     map[string]map[string]int64
	Structs   map[string]struct {
		Size   uintptr
		Fields []struct {
			Name   string
			Offset uintptr
			Type   string
		}
	}
}

func abi(t *testing.T) (out described) {
	text, err := os.ReadFile(filepath.Join(source, "include", "kvrt.abi.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &out))
	return out
}

// Every function of kvrt.h is called. Only kvrt_last_error is not: it is a thread's, and goroutines move between threads.
func TestEveryFunctionIsReached(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	called := map[string]bool{}
	for _, name := range append(files, "shim.c") {
		text, err := os.ReadFile(name)
		must(t, err)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?:C\.|return )(kvrt_\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			called[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`C\.(go_\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			called[m[1]] = true
		}
	}
	for name := range abi(t).Functions {
		shim := strings.Replace(name, "kvrt_", "go_", 1)
		check(t, called[name] != (name == "kvrt_last_error"), name, "is called:", called[name])
		shimText, err := os.ReadFile("shim.c")
		must(t, err)
		check(t, strings.Contains(string(shimText), shim+"(") == called[shim], shim, "is called:", called[shim])
	}
}

// The compiler of this package sees the structs as kvrt.h's describer does, and the library has them so.
func TestLayouts(t *testing.T) {
	must(t, loaded())
	want := abi(t).Structs
	got := layouts()
	equal(t, len(got), len(want))
	for _, s := range got {
		equal(t, s.size, want[s.name].Size)
		equal(t, len(s.fields), len(want[s.name].Fields))
		for i, f := range want[s.name].Fields {
			equal(t, s.fields[i], field{f.Name, f.Offset})
		}
	}
}

func TestAnotherLibraryIsRefused(t *testing.T) {
	for _, c := range []struct {
		abi     uint32
		structs []layout
		message string
	}{
		{abiVersion + 7, nil, "has ABI 7, this package knows 0"},
		{abiVersion, []layout{{"kvrt_event", 999, nil}}, "the library is older"},
		{abiVersion, []layout{{"kvrt_events", 4, nil}}, "kvrt_events has 0 bytes"},
		{abiVersion, []layout{{"kvrt_event", 8, []field{{"token", 4}}}}, "kvrt_event.token lies at 8"},
		{abiVersion, []layout{{"kvrt_event", 8, []field{{"tokens", 4}}}}, "kvrt_event.tokens lies at 4294967295"},
	} {
		err := compare(c.abi, c.structs)
		fails(t, err, StatusIncompatible)
		check(t, strings.Contains(err.Error(), c.message), err)
	}
}

func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// Every field of an options struct can be set, and every field of the others is there to be read.
func TestEveryFieldIsReached(t *testing.T) {
	types := map[string]reflect.Type{}
	for _, v := range []any{Error{}, Report{}, StoreEntry{}, TokenValue{}, Event{}, RuntimeOptions{}, RuntimeProps{}, ModelOptions{}, ModelProps{}, TemplateOptions{}, Metrics{},
		PlanOptions{}, Plan{}, CacheProps{}, StoreOptions{}, StoreProps{}, GCReport{}, RepairReport{}, SessionOptions{}, SessionProps{}, AppendInfo{}, MessageProps{},
		GenerateOptions{}, SaveOptions{}, SaveReport{}} {
		types["kvrt"+plain(reflect.TypeOf(v).Name())] = reflect.TypeOf(v)
	}
	structs := abi(t).Structs
	equal(t, len(types), len(structs))
	for name, s := range structs {
		fields, pointers := map[string]bool{}, map[string]bool{}
		kind := types[plain(name)]
		check(t, kind != nil, name)
		for i := 0; i < kind.NumField(); i++ {
			fields[plain(kind.Field(i).Name)] = true
		}
		for _, f := range s.Fields {
			pointers[f.Name] = strings.HasSuffix(f.Type, "*") || strings.HasSuffix(f.Type, "_fn")
		}
		for _, f := range s.Fields {
			// Sizes and counts are those of a text or slice; user pointers are the package's.
			base := regexp.MustCompile(`_(size|count|user|user_free)$`).ReplaceAllString(f.Name, "")
			inside := f.Name == "struct_size" || f.Name == "reserved" || base != f.Name && (pointers[base] || pointers[base+"s"])
			check(t, fields[plain(f.Name)] || inside, name, f.Name)
		}
	}
}

func TestNames(t *testing.T) {
	enums := abi(t).Enums
	for name, value := range enums["KVRT"] {
		equal(t, Status(value).String(), strings.TrimPrefix(name, "KVRT_"))
		equal(t, Status(value).Error(), "kvrt: "+Status(value).String()) // the library's name
	}
	equal(t, len(enums), 25)
	for name, value := range enums["KVRT_DETAIL"] {
		equal(t, Detail(value).String(), strings.TrimPrefix(name, "KVRT_DETAIL_"))
	}
	equal(t, KVINT8.String()+" "+EventToolCall.String()+" "+ReasonEOS.String()+" "+ISAAVX512.String(), "INT8 TOOL_CALL EOS AVX512")
	equal(t, (TextSpecial|TextBOS).String()+" "+TextFlags(0).String()+" "+TextFlags(9).String(), "SPECIAL|BOS 0 SPECIAL|8")
	equal(t, Status(99).String()+" "+Status(99).Error(), "UNKNOWN(99) kvrt: UNKNOWN")
	check(t, regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(Version()), Version())
}
