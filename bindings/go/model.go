package kvrt

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"runtime"
	"unsafe"
)

// Model has the weights, tokenizer and chat template of a GGUF file, and a pool of KV blocks for its sessions. Any number of goroutines may use it at
// once. Its sessions keep it alive.
type Model struct{ handle handle }

func newModel(raw unsafe.Pointer) *Model {
	m := &Model{handle{raw: raw, kind: "model", release: func(p unsafe.Pointer) { C.kvrt_model_release((*C.kvrt_model)(p)) }}}
	runtime.SetFinalizer(m, func(m *Model) { go m.Close() })
	return m
}

// at gives the handle; of a nil model, or one that was not opened, one that refuses every call.
func (m *Model) at() *handle {
	if m == nil || m.handle.raw == nil {
		return &handle{kind: "model"}
	}
	return &m.handle
}

// Retain gives another owner of the same model, which has a Close of its own.
func (m *Model) Retain() (*Model, error) {
	raw, err := m.at().enter()
	if err != nil {
		return nil, err
	}
	defer m.at().leave()
	C.kvrt_model_retain((*C.kvrt_model)(raw))
	return newModel(raw), nil
}

// Close takes this owner away. It never fails. The weights go with the model's last session.
func (m *Model) Close() error {
	if m.at().close(nil) {
		runtime.SetFinalizer(m, nil)
	}
	return nil
}

// Info describes the model, and its pool as it is now.
func (m *Model) Info() (ModelProps, error) {
	out := C.kvrt_model_props{struct_size: C.sizeof_kvrt_model_props}
	err := m.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_model_info((*C.kvrt_model)(raw), &out, e)
	})
	if err != nil {
		return ModelProps{}, err
	}
	return toModelProps(&out), nil
}

// Tokenize turns text into tokens: TextSpecial: text that spells a special token becomes it; TextBOS: begin with the model's BOS token.
func (m *Model) Tokenize(s string, flags TextFlags) ([]int32, error) {
	return buffer[int32](func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error {
		return m.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_model_tokenize((*C.kvrt_model)(raw), text(s), size(s), C.uint32_t(flags), (*C.int32_t)(p), capacity, needed, e)
		})
	})
}

// Detokenize turns tokens into their bytes, which may end within a character. TextSpecial: special tokens are spelled out.
func (m *Model) Detokenize(tokens []int32, flags TextFlags) (string, error) {
	out, err := buffer[byte](func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error {
		return m.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_model_detokenize((*C.kvrt_model)(raw), ids(tokens), C.size_t(len(tokens)), C.uint32_t(flags), (*C.char)(p), capacity, needed, e)
		})
	})
	return string(out), err
}

// ApplyTemplate renders messages, any value that is a list of messages in JSON ([]Message, say), with the model's chat template, or that of the
// options. It blocks about 100 ms at most.
func (m *Model) ApplyTemplate(messages any, options *TemplateOptions) (string, error) {
	raw, err := m.at().enter()
	if err != nil {
		return "", err
	}
	defer m.at().leave()
	return applyTemplate((*C.kvrt_model)(raw), messages, options)
}

// ApplyTemplate renders messages with the template in the options, TemplateOptions.Source, without a model.
func ApplyTemplate(messages any, options *TemplateOptions) (string, error) {
	if err := loaded(); err != nil {
		return "", err
	}
	return applyTemplate(nil, messages, options)
}

func applyTemplate(model *C.kvrt_model, messages any, options *TemplateOptions) (string, error) {
	source, err := toList(messages)
	if err != nil {
		return "", err
	}
	var o C.kvrt_template_options
	var t texts
	options.fill(&o, &t)
	if t.err != nil {
		return "", t.err
	}
	out, err := buffer[byte](func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error {
		return call(func(e *C.kvrt_error) C.kvrt_status {
			return C.go_model_apply_template(model, text(source), size(source), &o, t.at(), (*C.char)(p), capacity, needed, e)
		})
	})
	return string(out), err
}

// Step computes for all generating sessions of the model, for programs with a loop of their own: until none can go on, or ms milliseconds are up; 0:
// one step. runnable is the number of sessions that could go on now. Take the events with Session.Next and timeout 0.
func (m *Model) Step(ms uint32) (runnable uint32, err error) {
	var out C.uint32_t
	err = m.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_model_step((*C.kvrt_model)(raw), C.uint32_t(ms), &out, e)
	})
	return uint32(out), err
}

// Metrics gives the model's counters now.
func (m *Model) Metrics() (Metrics, error) {
	out := C.kvrt_metrics{struct_size: C.sizeof_kvrt_metrics}
	err := m.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_model_metrics((*C.kvrt_model)(raw), &out, e)
	})
	if err != nil {
		return Metrics{}, err
	}
	return toMetrics(&out), nil
}

// MetricsText gives the counters in Prometheus' text format; label is the value of the label `model`, "": the model's name.
func (m *Model) MetricsText(label string) (string, error) {
	out, err := buffer[byte](func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error {
		return m.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_model_metrics_text((*C.kvrt_model)(raw), textOrNull(label), size(label), (*C.char)(p), capacity, needed, e)
		})
	})
	return string(out), err
}

// OpenSession opens an empty session. The caller closes it. The first session with a store reads the whole model file.
//
// SessionOptions.Wake runs on the thread that computes, cancels, accepts or begins. It only signals: it must not call kvrt and must not panic. What it
// refers to is kept as long as the session: one that refers to the session itself keeps it from being closed by a finalizer.
func (m *Model) OpenSession(options *SessionOptions) (*Session, error) {
	var out *C.kvrt_session
	err := m.open(options, func(o *C.kvrt_session_options, t *texts, wake C.uintptr_t) error {
		return m.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
			return C.go_session_open((*C.kvrt_model)(raw), o, t.at(), wake, &out, e)
		})
	})
	if err != nil {
		return nil, err
	}
	return newSession(unsafe.Pointer(out)), nil
}

// Resume opens a saved session, in this process or another, and loads its KV; the report says how much came back. options: Domain must be the one
// that it was saved in, Store is not looked at, and nil Tools, Documents and Variables stay as they were saved. progress (nil: none) gets PROGRESS in chunks; it, or the
// end of the context, ends the call, but not while the first session of a model with a store reads the whole model file. NOT_FOUND: there is no such
// session. It blocks until its chunks are read. A session that is longer than the pool holds is SUSPENDED: it can be read, and made shorter.
func (m *Model) Resume(ctx context.Context, store *Store, name string, options *SessionOptions, progress func(Event) error) (*Session, Report, error) {
	from, err := store.at().enter()
	if err != nil {
		return nil, Report{}, err
	}
	defer store.at().leave()
	var out *C.kvrt_session
	report := C.kvrt_report{struct_size: C.sizeof_kvrt_report}
	if options != nil {
		without := *options
		without.Store = nil
		options = &without
	}
	err = duringContext(ctx, progress, func(user C.uintptr_t) error {
		return m.open(options, func(o *C.kvrt_session_options, t *texts, wake C.uintptr_t) error {
			return m.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status {
				return C.go_session_resume((*C.kvrt_model)(raw), (*C.kvrt_store)(from), text(name), size(name), o, t.at(), wake, user, &report, &out, e)
			})
		})
	})
	if err != nil {
		return nil, Report{}, err
	}
	return newSession(unsafe.Pointer(out)), toReport(&report), nil
}

// ResumeOrOpen gives the saved session of this name and the report of its resume; where there is none, an empty session with these options and store,
// and a nil report. Autosave saves that under the name, unless the options have another; without autosave save it under the name.
func (m *Model) ResumeOrOpen(ctx context.Context, store *Store, name string, options *SessionOptions, progress func(Event) error) (*Session, *Report, error) {
	session, report, err := m.Resume(ctx, store, name, options, progress)
	if err == nil {
		return session, &report, nil
	}
	if !errors.Is(err, StatusNotFound) {
		return nil, nil, err
	}
	var fresh SessionOptions
	if options != nil {
		fresh = *options
	}
	fresh.Store = store
	if fresh.AutosaveName == "" {
		fresh.AutosaveName = name
	}
	if err := ended(ctx); err != nil {
		return nil, nil, err
	}
	session, err = m.OpenSession(&fresh)
	return session, nil, err
}

// open has what open and resume share: the options, and the callback that is kept.
func (m *Model) open(options *SessionOptions, f func(o *C.kvrt_session_options, t *texts, wake C.uintptr_t) error) error {
	var o C.kvrt_session_options
	var t texts
	defer t.leave()
	options.fill(&o, &t)
	if t.err != nil {
		return t.err
	}
	if options == nil {
		return f(&o, &t, 0)
	}
	wake, drop := keep(options.Wake, options.Wake != nil)
	err := f(&o, &t, wake)
	if err != nil {
		drop()
	}
	return err
}

// ids gives tokens to one call of C.
func ids(tokens []int32) *C.int32_t {
	if len(tokens) == 0 {
		return nil
	}
	return (*C.int32_t)(unsafe.Pointer(&tokens[0]))
}
