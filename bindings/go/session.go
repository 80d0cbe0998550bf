package kvrt

// #include "shim.h"
import "C"

import (
	"encoding/json"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// End is, for Session.Text, the session's length.
const End = math.MaxUint64

// Message is a message as most chat templates take it, for AppendMessage and SetMessages. They take any value that is one in JSON.
type Message struct {
	Role    string `json:"role"` // "system", "user", "assistant", "tool".
	Content string `json:"content"`
}

// Session is one conversation with a model. It takes one call at a time: a second one is BUSY (CONCURRENT, or REENTRANT in a callback). Beside that
// call any goroutine may call Cancel, Accept, Checkpoint, Close, and the reads: Info, Tokens, Text, Message.
type Session struct {
	handle handle
	// Next holds it alone, the other calls together: an event of next points into the library until the next call, and is copied before that.
	turn sync.RWMutex
	// Counts the generations that Begin and Stream began: a stream takes no events of another's.
	begun atomic.Uint64
}

func newSession(raw unsafe.Pointer) *Session {
	s := &Session{handle: handle{raw: raw, kind: "session", release: func(p unsafe.Pointer) { C.kvrt_session_close((*C.kvrt_session)(p)) }}}
	runtime.SetFinalizer(s, func(s *Session) { go s.Close() })
	return s
}

// at gives the handle; of a nil session, or one that was not opened, one that refuses every call.
func (s *Session) at() *handle {
	if s == nil || s.handle.raw == nil {
		return &handle{kind: "session"}
	}
	return &s.handle
}

// Close ends the session. It never fails. With autosave it saves once more; save before where you need the status. A call that another goroutine has
// inside is cancelled, and ends the session when it returns, within a step: Close does not wait for it. So it may also be called in a callback.
func (s *Session) Close() error {
	if s.at().close(func(raw unsafe.Pointer) { C.kvrt_session_cancel((*C.kvrt_session)(raw), nil) }) {
		runtime.SetFinalizer(s, nil)
	}
	return nil
}

// ---- one call at a time ----

func busy() error {
	return &Error{Status: StatusBusy, Detail: DetailConcurrent, Message: "kvrt: another goroutine is inside a call on this session"}
}

// one makes a call that goes beside no other; the library tells them apart, but for Next.
func (s *Session) one(f func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status) error {
	if s == nil {
		return s.beside(f) // which refuses it
	}
	if !s.turn.TryRLock() {
		return busy()
	}
	defer s.turn.RUnlock()
	return s.beside(f)
}

// beside makes a call that may go beside another.
func (s *Session) beside(f func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status) error {
	return s.at().call(func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status { return f((*C.kvrt_session)(raw), e) })
}

// ---- reads: any goroutine, at any time; they wait for no step ----

// Info describes the session as it is now.
func (s *Session) Info() (SessionProps, error) {
	out := C.kvrt_session_props{struct_size: C.sizeof_kvrt_session_props}
	err := s.beside(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status { return C.kvrt_session_info(raw, &out, e) })
	if err != nil {
		return SessionProps{}, err
	}
	return toSessionProps(&out), nil
}

// Tokens gives all token ids of the session.
func (s *Session) Tokens() ([]int32, error) {
	return buffer[int32](func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error {
		return s.beside(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_session_tokens(raw, (*C.int32_t)(p), capacity, needed, e)
		})
	})
}

// Text gives the bytes of the tokens [from, to), to End for all; they may begin and end within a character. TextSpecial: special tokens are spelled out.
func (s *Session) Text(from, to uint64, flags TextFlags) (string, error) {
	out, err := buffer[byte](func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error {
		return s.beside(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_session_text(raw, C.uint64_t(from), C.uint64_t(to), C.uint32_t(flags), (*C.char)(p), capacity, needed, e)
		})
	})
	return string(out), err
}

// Message gives message index, from 0, as JSON, and where it lies. NOT_FOUND: the session has fewer.
func (s *Session) Message(index uint64) (json.RawMessage, MessageProps, error) {
	props := C.kvrt_message_props{struct_size: C.sizeof_kvrt_message_props}
	out, err := buffer[byte](func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error {
		return s.beside(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_session_message(raw, C.uint64_t(index), &props, (*C.char)(p), capacity, needed, e)
		})
	})
	return out, toMessageProps(&props), err
}

// ---- say something ----

// Append appends tokens as they are. The next generation computes them.
func (s *Session) Append(tokens []int32) error {
	return s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_session_append(raw, ids(tokens), C.size_t(len(tokens)), e)
	})
}

// AppendText appends text, tokenized as Model.Tokenize does. TextSpecial: text that spells a special token becomes it.
func (s *Session) AppendText(value string, flags TextFlags) error {
	return s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_session_append_text(raw, text(value), size(value), C.uint32_t(flags), e)
	})
}

// AppendMessage appends one message: a Message, or any value that is one in JSON. The next generation opens the model's turn. It blocks about 100 ms
// at most, longer where it rewrites tokens of earlier messages.
func (s *Session) AppendMessage(message any) (AppendInfo, error) {
	made, err := toJSON(message)
	if err != nil {
		return AppendInfo{}, err
	}
	return s.messages(made, func(raw *C.kvrt_session, json string, out *C.kvrt_append_info, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_session_append_message(raw, text(json), size(json), out, e)
	})
}

// SetMessages makes the conversation be these messages, a list ([]Message, say; nil is an empty one). Leading messages that are equal stay as they are, with their KV.
func (s *Session) SetMessages(messages any) (AppendInfo, error) {
	made, err := toList(messages)
	if err != nil {
		return AppendInfo{}, err
	}
	return s.messages(made, func(raw *C.kvrt_session, json string, out *C.kvrt_append_info, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_session_set_messages(raw, text(json), size(json), out, e)
	})
}

func (s *Session) messages(made string, f func(*C.kvrt_session, string, *C.kvrt_append_info, *C.kvrt_error) C.kvrt_status) (AppendInfo, error) {
	out := C.kvrt_append_info{struct_size: C.sizeof_kvrt_append_info}
	err := s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status { return f(raw, made, &out, e) })
	return toAppendInfo(&out), err
}

// ---- fork and cut ----

// Fork makes a copy that shares all KV with the session; a block is copied when one of them first writes to it. It is not saved. Of the options only
// Wake is looked at; they may be nil. The caller closes it.
func (s *Session) Fork(options *SessionOptions) (*Session, error) {
	var wake C.uintptr_t
	drop := func() {}
	if options != nil {
		wake, drop = keep(options.Wake, options.Wake != nil)
	}
	var out *C.kvrt_session
	err := s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status { return C.go_session_fork(raw, wake, &out, e) })
	if err != nil {
		drop()
		return nil, err
	}
	return newSession(unsafe.Pointer(out)), nil
}

// Truncate keeps the first count tokens, the messages that end within them, and of an answer that ends beyond what its tokens there say.
func (s *Session) Truncate(count uint64) error {
	return s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_session_truncate(raw, C.uint64_t(count), e)
	})
}

// Mark makes a boundary within the first tokens (0: all): where layers have windows or are recurrent, a rewind goes on from there.
func (s *Session) Mark(tokens uint64) error {
	return s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_session_mark(raw, C.uint64_t(tokens), e)
	})
}

// Erase drops the tokens [from, to) and the messages in them. The tokens after them move up and are computed again.
func (s *Session) Erase(from, to uint64) error {
	return s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_session_erase(raw, C.uint64_t(from), C.uint64_t(to), e)
	})
}

// ---- save ----

// Checkpoint saves the session under the name in its store; it stays in memory, and may generate meanwhile. Any goroutine, at any time. CONFLICT:
// another session has the name, or saved it since: see SaveOptions.Overwrite. It blocks for a step, other writers (5 s at most) and the disk.
func (s *Session) Checkpoint(name string, options *SaveOptions) (SaveReport, error) {
	return save(name, options, func(o *C.kvrt_save_options, out *C.kvrt_save_report) error {
		return s.beside(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_session_checkpoint(raw, text(name), size(name), o, out, e)
		})
	})
}

// Suspend saves the session as Checkpoint does, and gives its blocks back. It goes on with the next call that computes, which loads the KV again.
func (s *Session) Suspend(name string, options *SaveOptions) (SaveReport, error) {
	return save(name, options, func(o *C.kvrt_save_options, out *C.kvrt_save_report) error {
		return s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
			return C.kvrt_session_suspend(raw, text(name), size(name), o, out, e)
		})
	})
}

func save(name string, options *SaveOptions, f func(o *C.kvrt_save_options, out *C.kvrt_save_report) error) (SaveReport, error) {
	var o C.kvrt_save_options
	options.fill(&o, nil)
	out := C.kvrt_save_report{struct_size: C.sizeof_kvrt_save_report}
	err := f(&o, &out)
	return toSaveReport(&out), err
}
