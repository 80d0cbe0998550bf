package kvrt

// #include "shim.h"
import "C"

import (
	"context"
	"encoding/json"
	"runtime"
	"unsafe"
)

// Runtime is a device with its threads, and the log. Any number of goroutines may use it at once. Models, stores and sessions keep it alive.
type Runtime struct{ handle handle }

func newRuntime(raw unsafe.Pointer) *Runtime {
	r := &Runtime{handle{raw: raw, kind: "runtime", release: func(p unsafe.Pointer) { C.kvrt_runtime_release((*C.kvrt_runtime)(p)) }}}
	runtime.SetFinalizer(r, func(r *Runtime) { go r.Close() })
	return r
}

// OpenRuntime opens a runtime; nil options are all defaults: the CPU, a thread for each CPU, no log. The caller closes it.
//
// RuntimeOptions.Log gets lines on any thread. It must not call kvrt and must not panic: that ends the program.
//
// It is INCOMPATIBLE where the library does not fit this package, and UNSUPPORTED where the process has an SQLite, zstd, PCRE2 or libsodium of its
// own that took the place of the library's: the message says whose. It blocks milliseconds; a CUDA driver takes longer.
func OpenRuntime(options *RuntimeOptions) (*Runtime, error) {
	if err := loaded(); err != nil {
		return nil, err
	}
	var o C.kvrt_runtime_options
	var t texts
	options.fill(&o, &t)
	var log C.uintptr_t
	drop := func() {}
	if options != nil {
		log, drop = keep(options.Log, options.Log != nil)
	}
	var out *C.kvrt_runtime
	if err := call(func(e *C.kvrt_error) C.kvrt_status { return C.go_runtime_open(&o, t.at(), log, &out, e) }); err != nil {
		drop()
		return nil, err
	}
	return newRuntime(unsafe.Pointer(out)), nil
}

// at gives the handle; of a nil runtime, or one that was not opened, one that refuses every call.
func (r *Runtime) at() *handle {
	if r == nil || r.handle.raw == nil {
		return &handle{kind: "runtime"}
	}
	return &r.handle
}

// Retain gives another owner of the same runtime, which has a Close of its own.
func (r *Runtime) Retain() (*Runtime, error) {
	raw, err := r.at().enter()
	if err != nil {
		return nil, err
	}
	defer r.at().leave()
	C.kvrt_runtime_retain((*C.kvrt_runtime)(raw))
	return newRuntime(raw), nil
}

// Close takes this owner away. What was opened with the runtime goes on. It never fails. Where nothing keeps the runtime it ends its threads.
func (r *Runtime) Close() error {
	if r.at().close(nil) {
		runtime.SetFinalizer(r, nil)
	}
	return nil
}

// Info describes the runtime's device, threads and libraries.
func (r *Runtime) Info() (RuntimeProps, error) {
	out := C.kvrt_runtime_props{struct_size: C.sizeof_kvrt_runtime_props}
	err := r.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_runtime_info((*C.kvrt_runtime)(raw), &out, e)
	})
	if err != nil {
		return RuntimeProps{}, err
	}
	return toRuntimeProps(&out), nil
}

// SetThreads sets the number of compute threads from the next step on: 1 to 256; 0: one for each CPU that affinity and cgroup leave.
func (r *Runtime) SetThreads(threads uint32) error {
	return r.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_runtime_set_threads((*C.kvrt_runtime)(raw), C.uint32_t(threads), e)
	})
}

// OpenModel opens a GGUF file, which must not change while the model is open. progress (nil: none) gets PROGRESS in bytes; it, or the end of the
// context, ends the call. The caller closes the model. It blocks until the file is read.
func (r *Runtime) OpenModel(ctx context.Context, path string, options *ModelOptions, progress func(Event) error) (*Model, error) {
	var o C.kvrt_model_options
	var t texts
	options.fill(&o, &t)
	var out *C.kvrt_model
	err := duringContext(ctx, progress, func(user C.uintptr_t) error {
		return r.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.go_model_open((*C.kvrt_runtime)(raw), text(path), size(path), &o, t.at(), user, &out, e)
		})
	})
	if err != nil {
		return nil, err
	}
	return newModel(unsafe.Pointer(out)), nil
}

// Cache describes the weight cache that OpenModel takes with the same options, and makes nothing. NOT_FOUND: they name none; other failures say why
// no new file can be written there. It blocks for reading the directory.
func (r *Runtime) Cache(options *ModelOptions) (CacheProps, error) {
	var o C.kvrt_model_options
	var t texts
	options.fill(&o, &t)
	out := C.kvrt_cache_props{struct_size: C.sizeof_kvrt_cache_props}
	err := r.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.go_model_cache((*C.kvrt_runtime)(raw), &o, t.at(), &out, e)
	})
	if err != nil {
		return CacheProps{}, err
	}
	return toCacheProps(&out), nil
}

// Plan computes the memory that a model and its sessions will take, from the file's header alone. Path "": from the geometry in the options.
func (r *Runtime) Plan(path string, options *PlanOptions) (Plan, error) {
	var o C.kvrt_plan_options
	options.fill(&o, nil)
	out := C.kvrt_plan{struct_size: C.sizeof_kvrt_plan}
	err := r.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_model_plan((*C.kvrt_runtime)(raw), textOrNull(path), size(path), &o, &out, e)
	})
	if err != nil {
		return Plan{}, err
	}
	return toPlan(&out), nil
}

// Inspect describes the contents of a GGUF file as JSON, from its header alone; "refused" lists the parts that kvrt cannot run.
func (r *Runtime) Inspect(path string, flags InspectFlags) (json.RawMessage, error) {
	return buffer[byte](func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error {
		return r.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_model_inspect((*C.kvrt_runtime)(raw), text(path), size(path), C.uint32_t(flags), (*C.char)(p), capacity, needed, e)
		})
	})
}

// OpenStore opens a directory of saved sessions, and makes it where there is none. A directory that is open in this runtime already gives the same
// store. The caller closes it. It blocks up to 5 s for other writers, and for the disk.
func (r *Runtime) OpenStore(path string, options *StoreOptions) (*Store, error) {
	var o C.kvrt_store_options
	options.fill(&o, nil)
	var out *C.kvrt_store
	err := r.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_store_open((*C.kvrt_runtime)(raw), text(path), size(path), &o, &out, e)
	})
	if err != nil {
		return nil, err
	}
	return newStore(unsafe.Pointer(out)), nil
}

// RepairStore makes a sound store of a directory that does not open, or in which Verify finds faults; nobody may have it open. fn (nil: none) gets
// FAULT, a fault and its treatment, and PROGRESS in bytes. A repair that fn or the context ends has changed nothing. It blocks until all is read,
// and written anew where it must be.
func (r *Runtime) RepairStore(ctx context.Context, path string, fn func(Event) error) (RepairReport, error) {
	out := C.kvrt_repair_report{struct_size: C.sizeof_kvrt_repair_report}
	err := duringContext(ctx, fn, func(user C.uintptr_t) error {
		return r.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.go_store_repair((*C.kvrt_runtime)(raw), text(path), size(path), user, &out, e)
		})
	})
	return toRepairReport(&out), err
}
