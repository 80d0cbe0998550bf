// The parts of which the classes of kvrt.hpp are made: spans, status, results, events, and callables as callbacks.
#ifndef KVRT_VALUES_HPP
#define KVRT_VALUES_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>
#if __has_include(<version>)
#include <version>
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif

#include "kvrt.h"

namespace kvrt {

// ---- values ------------------------------------------------------------------------------------------------------------------------

#if defined(__cpp_lib_span)
template <class T>
using Span = std::span<T>;
#else
// The part of std::span that is used here.
template <class T>
class Span {
 public:
  constexpr Span() noexcept = default;
  constexpr Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <std::size_t N>
  constexpr Span(T (&array)[N]) noexcept : data_(array), size_(N) {}
  template <class C, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C&>().data()), T*> > >
  constexpr Span(C&& container) noexcept : data_(container.data()), size_(container.size()) {}
  constexpr T* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T& operator[](std::size_t i) const noexcept { return data_[i]; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};
#endif

// A struct of kvrt.h, all zeros except its struct_size.
template <class T>
T init() noexcept {
  T t{};
  t.struct_size = static_cast<std::uint32_t>(sizeof(T));
  return t;
}

// The two fields of a text in an options struct: assign(o.domain, o.domain_size, "ann"). The text must live until the call.
inline void assign(const char*& field, std::size_t& size, std::string_view text) noexcept {
  field = text.data();
  size = text.size();
}

// The calling thread's last error: ask for it on the thread of the call that failed. On another thread it is that thread's own.
inline kvrt_error last_error() noexcept {
  kvrt_error e = init<kvrt_error>();
  (void)kvrt_last_error(&e);
  return e;
}

#if defined(__cpp_exceptions)
// The exception that or_throw throws.
class Error : public std::exception {
 public:
  explicit Error(kvrt_status status) noexcept : error_(last_error()) {
    if (error_.status == status) return;
    error_ = init<kvrt_error>();  // another call on this thread has failed since
    error_.status = status;
    std::strncpy(error_.message, kvrt_status_name(status), sizeof error_.message - 1);
  }
  const char* what() const noexcept override { return error_.message; }
  kvrt_status status() const noexcept { return error_.status; }
  std::int32_t detail() const noexcept { return error_.detail; }
  const kvrt_error& raw() const noexcept { return error_; }

 private:
  kvrt_error error_;
};
#endif

class [[nodiscard]] Status {
 public:
  constexpr Status(kvrt_status code = KVRT_OK) noexcept : code_(code) {}
  constexpr bool ok() const noexcept { return code_ == KVRT_OK; }
  constexpr kvrt_status code() const noexcept { return code_; }
  const char* name() const noexcept { return kvrt_status_name(code_); }
  friend constexpr bool operator==(Status a, Status b) noexcept { return a.code_ == b.code_; }
  friend constexpr bool operator!=(Status a, Status b) noexcept { return a.code_ != b.code_; }
#if defined(__cpp_exceptions)
  // Throws an Error unless it is OK. Call it on the thread of the call, whose last_error the message is; elsewhere the message may be that of
  // another failure with this status.
  void or_throw() const {
    if (!ok()) throw Error(code_);
  }
#endif

 private:
  kvrt_status code_;
};

// A status and, if it is OK, a value. Else the value is empty (a NULL handle, a struct of zeros), except the report of a CANCELLED call.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(Status status, T value) noexcept : status_(status), value_(std::move(value)) {}
  bool ok() const noexcept { return status_.ok(); }
  Status status() const noexcept { return status_; }
  T& operator*() & noexcept { return value_; }
  const T& operator*() const& noexcept { return value_; }
  T&& operator*() && noexcept { return std::move(value_); }
  T* operator->() noexcept { return &value_; }
  const T* operator->() const noexcept { return &value_; }
#if defined(__cpp_exceptions)
  // The value, or what Status::or_throw throws: on the thread of the call, too.
  T or_throw() && {
    status_.or_throw();
    return std::move(value_);
  }
  const T& or_throw() const& {
    status_.or_throw();
    return value_;
  }
#endif

 private:
  Status status_;
  T value_;
};

// A kvrt_event; its pointers live as long as kvrt.h says.
struct Event : kvrt_event {
  Event() noexcept : kvrt_event(init<kvrt_event>()) {}
  explicit Event(const kvrt_event* from) noexcept : Event() {  // from a library that may know fewer or more fields
    std::memcpy(static_cast<kvrt_event*>(this), from, from->struct_size < sizeof(kvrt_event) ? from->struct_size : sizeof(kvrt_event));
  }
  std::string_view text_view() const noexcept { return {text, text_size}; }
  Span<const float> logits_span() const noexcept { return {logits, logits_count}; }
  Span<const kvrt_token_value> top_span() const noexcept { return {top, top_count}; }
};

enum class Flow : std::int32_t { go_on = 0, stop = 1 };
// The result of a callback that stops its call where `stop` is true.
constexpr Flow stop_if(bool stop) noexcept { return stop ? Flow::stop : Flow::go_on; }

// The events of next() up to DONE, and DONE itself: for (const kvrt::Event& e : session.events(end)). `end` gets the status that ended the
// loop. Leaving the loop early leaves the generation as it is: cancel it, or go on later.
class Events {
 public:
  struct End {};
  class Iterator {
   public:
    explicit Iterator(Events* events) noexcept : events_(events) {}
    const Event& operator*() const noexcept { return events_->event_; }
    Iterator& operator++() noexcept {
      events_->advance();
      return *this;
    }
    bool operator!=(End) const noexcept { return !events_->over_; }

   private:
    Events* events_;
  };
  Events(kvrt_session* session, Status& end) noexcept : session_(session), end_(&end) { end = Status(); }
  Iterator begin() noexcept {
    advance();
    return Iterator(this);
  }
  End end() const noexcept { return {}; }

 private:
  void advance() noexcept {
    over_ = event_.type == KVRT_EVENT_DONE;
    if (over_) return;
    *end_ = kvrt_session_next(session_, &event_, -1, nullptr);
    over_ = !end_->ok() || event_.type == KVRT_EVENT_IDLE;
  }
  kvrt_session* session_;
  Status* end_;
  Event event_;
  bool over_ = false;
};

// ---- callables as callbacks, by reference --------------------------------------------------------------------------------------------

// The callable that stands for none.
struct NoCallback {
  void operator()(const Event&) const noexcept {}
};

namespace detail {

template <class F>
class Callback {
 public:
  explicit Callback(F& f) noexcept : f_(&f) {}
  static kvrt_event_fn function() noexcept { return std::is_same_v<std::remove_cv_t<F>, NoCallback> ? nullptr : &Callback::call; }
  // `status` is that of the call that was given function() and this. Throws the exception that f threw, if there is one.
  Status finish(kvrt_status status) {
#if defined(__cpp_exceptions)
    if (thrown_) std::rethrow_exception(std::move(thrown_));
#endif
    return status;
  }

 private:
  static std::int32_t call(void* user, const kvrt_event* raw) noexcept {
    auto self = static_cast<Callback*>(user);
#if defined(__cpp_exceptions)
    if (self->thrown_) return 1;
    try {
      return self->invoke(Event(raw));
    } catch (...) {
      self->thrown_ = std::current_exception();
      return 1;
    }
#else
    return self->invoke(Event(raw));
#endif
  }
  std::int32_t invoke(const Event& event) {
    using R = std::invoke_result_t<F&, const Event&>;
    static_assert(std::is_void_v<R> || std::is_same_v<R, Flow>, "a callback returns void or kvrt::Flow");
    if constexpr (std::is_void_v<R>) {
      (*f_)(event);
      return 0;
    } else {
      return static_cast<std::int32_t>((*f_)(event));
    }
  }
  F* f_;
#if defined(__cpp_exceptions)
  std::exception_ptr thrown_;
#endif
};

// Calls `call(data, capacity, &needed)` until the container holds all of its output.
template <class C, class Call>
Status fill(C& container, Call call) {
  for (;;) {
    std::size_t needed = 0;
    const Status status = call(container.data(), container.size(), &needed);
    if (!status.ok() && status != KVRT_TOO_SMALL) return status;
    const bool whole = status.ok() && needed <= container.size();
    container.resize(needed);
    if (whole) return status;
  }
}

// The `user` of a callback that is kept: f, which a trampoline casts back to F, const where F is.
template <class F>
void* user_of(F& f) noexcept {
  return const_cast<void*>(static_cast<const void*>(&f));
}

}  // namespace detail

// Keeps a reference to f, which must outlive the runtime and all that was opened with it. f(level, text) may come on any thread, must not
// call kvrt, and must not throw.
template <class F>
void log_to(kvrt_runtime_options& options, F& f) noexcept {
  static_assert(std::is_nothrow_invocable_v<F&, std::int32_t, std::string_view>, "a log callable is noexcept");
  options.log = [](void* user, std::int32_t level, const char* text, std::size_t size) {
    (*static_cast<F*>(user))(level, std::string_view(text, size));
  };
  options.log_user = detail::user_of(f);
}

// Keeps a reference to f, which must outlive the session. f() comes on the thread that computes, only signals, and must not throw.
template <class F>
void wake_with(kvrt_session_options& options, F& f) noexcept {
  static_assert(std::is_nothrow_invocable_v<F&>, "a wake callable is noexcept");
  options.wake = [](void* user) { (*static_cast<F*>(user))(); };
  options.wake_user = detail::user_of(f);
}

// ---- handles -------------------------------------------------------------------------------------------------------------------------

namespace detail {

// A counted handle: a copy retains it, the destructor releases it.
template <class H, void (*Retain)(H*), void (*Release)(H*)>
class Shared {
 public:
  Shared() noexcept = default;
  explicit Shared(H* adopted) noexcept : handle_(adopted) {}  // takes over one reference
  Shared(const Shared& other) noexcept : handle_(other.handle_) {
    if (handle_) Retain(handle_);
  }
  Shared(Shared&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Shared() { Release(handle_); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  H* get() const noexcept { return handle_; }
  void reset() noexcept { Release(std::exchange(handle_, nullptr)); }

 private:
  H* handle_ = nullptr;
};

}  // namespace detail
}  // namespace kvrt

#endif
