package kvrt

// #include "shim.h"
import "C"

import (
	"context"
	"encoding/json"
	"runtime"
	"unsafe"
)

// Store is a directory of saved sessions. Any number of processes may have one open, and any number of goroutines may use it at once.
//
// In all calls domain "" is the default one. A call that writes waits for other writers at most 5 s, then it is BUSY; where it returns nil, its change
// survives a power cut.
type Store struct{ handle handle }

func newStore(raw unsafe.Pointer) *Store {
	s := &Store{handle{raw: raw, kind: "store", release: func(p unsafe.Pointer) { C.kvrt_store_release((*C.kvrt_store)(p)) }}}
	runtime.SetFinalizer(s, func(s *Store) { go s.Close() })
	return s
}

// at gives the handle; of a nil store, or one that was not opened, one that refuses every call.
func (s *Store) at() *handle {
	if s == nil || s.handle.raw == nil {
		return &handle{kind: "store"}
	}
	return &s.handle
}

// Retain gives another owner of the same store, which has a Close of its own.
func (s *Store) Retain() (*Store, error) {
	raw, err := s.at().enter()
	if err != nil {
		return nil, err
	}
	defer s.at().leave()
	C.kvrt_store_retain((*C.kvrt_store)(raw))
	return newStore(raw), nil
}

// Close takes this owner away; the directory closes when its sessions are closed, too. It never fails.
func (s *Store) Close() error {
	if s.at().close(nil) {
		runtime.SetFinalizer(s, nil)
	}
	return nil
}

// Info describes the store's contents and its size on disk.
func (s *Store) Info() (StoreProps, error) {
	out := C.kvrt_store_props{struct_size: C.sizeof_kvrt_store_props}
	err := s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_store_info((*C.kvrt_store)(raw), &out, e)
	})
	if err != nil {
		return StoreProps{}, err
	}
	return toStoreProps(&out), nil
}

// List gives fn each saved session of all domains, as they are when it is called, ordered by domain and name. fn may change the store. It, or the end
// of the context, ends the call.
func (s *Store) List(ctx context.Context, fn func(StoreEntry) error) error {
	return s.list(ctx, nil, 0, fn)
}

// ListDomain is List of one domain.
func (s *Store) ListDomain(ctx context.Context, domain string, fn func(StoreEntry) error) error {
	return s.list(ctx, text(domain), size(domain), fn)
}

func (s *Store) list(ctx context.Context, domain *C.char, domainSize C.size_t, fn func(StoreEntry) error) error {
	if fn == nil {
		return invalid("fn is nil: it gets the saved sessions")
	}
	each := func(event Event) error {
		if event.Entry == nil {
			return nil
		}
		return fn(*event.Entry)
	}
	return duringContext(ctx, each, func(user C.uintptr_t) error {
		return s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.go_store_list((*C.kvrt_store)(raw), domain, domainSize, user, e)
		})
	})
}

// Stat gives the entry of one session. NOT_FOUND: there is none of this name.
func (s *Store) Stat(domain, name string) (StoreEntry, error) {
	out := C.kvrt_store_entry{struct_size: C.sizeof_kvrt_store_entry}
	err := s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_store_stat((*C.kvrt_store)(raw), text(domain), size(domain), text(name), size(name), &out, e)
	})
	if err != nil {
		return StoreEntry{}, err
	}
	return toStoreEntry(&out), nil
}

// Show gives everything that the store keeps of a session, as JSON: messages, tokens, chunks, options. Its model is not needed.
func (s *Store) Show(domain, name string) (json.RawMessage, error) {
	return buffer[byte](func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error {
		return s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_store_show((*C.kvrt_store)(raw), text(domain), size(domain), text(name), size(name), (*C.char)(p), capacity, needed, e)
		})
	})
}

// Remove removes a saved session, and the chunks that no other needs. Sessions that are open go on.
func (s *Store) Remove(domain, name string) error {
	return s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_store_remove((*C.kvrt_store)(raw), text(domain), size(domain), text(name), size(name), e)
	})
}

// Rename renames a saved session, never over another (CONFLICT).
func (s *Store) Rename(domain, from, to string) error {
	return s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_store_rename((*C.kvrt_store)(raw), text(domain), size(domain), text(from), size(from), text(to), size(to), e)
	})
}

// Pin pins a saved session: it does not expire, and loses its KV later than others. pinned is its priority, 1 to 255; 0: not pinned.
func (s *Store) Pin(domain, name string, pinned uint32) error {
	return s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_store_pin((*C.kvrt_store)(raw), text(domain), size(domain), text(name), size(name), C.uint32_t(pinned), e)
	})
}

// SetTTL sets when a saved session expires: seconds from now, at most 100 years; 0: never.
func (s *Store) SetTTL(domain, name string, seconds uint64) error {
	return s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_store_set_ttl((*C.kvrt_store)(raw), text(domain), size(domain), text(name), size(name), C.uint64_t(seconds), e)
	})
}

// GC removes expired sessions, and files and KV that nothing needs. fn (nil: none) gets PROGRESS; wherever it or the context ends the call, the store
// is whole.
func (s *Store) GC(ctx context.Context, fn func(Event) error) (GCReport, error) {
	out := C.kvrt_gc_report{struct_size: C.sizeof_kvrt_gc_report}
	err := duringContext(ctx, fn, func(user C.uintptr_t) error {
		return s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.go_store_gc((*C.kvrt_store)(raw), user, &out, e)
		})
	})
	return toGCReport(&out), err
}

// RemoveOld removes the backups of migrations and repairs, and gives the bytes that were in them.
func (s *Store) RemoveOld() (uint64, error) {
	var out C.uint64_t
	err := s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_store_remove_old((*C.kvrt_store)(raw), &out, e)
	})
	return uint64(out), err
}

// Verify reads and checks the whole store. fn (nil: none) gets PROGRESS in bytes, then a FAULT for each fault; with faults the call is CORRUPT.
func (s *Store) Verify(ctx context.Context, fn func(Event) error) error {
	return duringContext(ctx, fn, func(user C.uintptr_t) error {
		return s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.go_store_verify((*C.kvrt_store)(raw), user, e)
		})
	})
}
