// kvrt for C++17 and later: handles that close themselves, spans, string_views, and callables as callbacks, over kvrt.h, whose manual
// holds here too. Nothing here allocates, and errors are values: it also works with -fno-exceptions -fno-rtti.
//
//   kvrt::Result<kvrt::Runtime> runtime = kvrt::Runtime::open();
//   kvrt::Result<kvrt::Model> model = kvrt::Model::open(*runtime, "model.gguf");
//   kvrt::Result<kvrt::Session> chat = kvrt::Session::open(*model);
//   if (!chat.ok()) return chat.status().code();  // kvrt::last_error().message says why
//   kvrt::Status s = chat->append_message(R"({"role": "user", "content": "Hello"})");
//   if (s.ok()) s = chat->generate(options, [](const kvrt::Event& e) { std::cout << e.text_view(); }).status();
//
// With exceptions: auto chat = kvrt::Session::open(*model).or_throw(). Ask for the message, as or_throw does, on the thread of the call.
//
// Options and reports are kvrt.h's structs; kvrt::init<kvrt_model_options>() makes one with its struct_size set. A callback takes a const
// kvrt::Event& and returns void, or kvrt::Flow to stop. An exception that it throws ends the call and comes out of it. A handle that was
// never opened or was moved from is NULL: its calls give INVALID. Functions of variable output take a span and `needed`, or any container
// with data(), size() and resize(), which then allocates by itself; a container that is large enough from the start needs one call alone.
#ifndef KVRT_HPP
#define KVRT_HPP

#include "kvrt_values.hpp"

namespace kvrt {

// ---- runtime -------------------------------------------------------------------------------------------------------------------------

class Runtime : public detail::Shared<kvrt_runtime, kvrt_runtime_retain, kvrt_runtime_release> {
 public:
  using Shared::Shared;
  static Result<Runtime> open(const kvrt_runtime_options& options = init<kvrt_runtime_options>()) noexcept {
    kvrt_runtime* out = nullptr;
    const Status status = kvrt_runtime_open(&options, &out, nullptr);
    return {status, Runtime(out)};
  }
  Result<kvrt_runtime_props> info() const noexcept {
    auto out = init<kvrt_runtime_props>();
    const Status status = kvrt_runtime_info(get(), &out, nullptr);
    return {status, out};
  }
  Status set_threads(std::uint32_t threads) const noexcept { return kvrt_runtime_set_threads(get(), threads, nullptr); }
  // The memory that a model and its sessions need. An empty path: the model has the geometry in the options.
  Result<kvrt_plan> plan(std::string_view path, const kvrt_plan_options& options = init<kvrt_plan_options>()) const noexcept {
    auto out = init<kvrt_plan>();
    const Status status = kvrt_model_plan(get(), path.empty() ? nullptr : path.data(), path.size(), &options, &out, nullptr);
    return {status, out};
  }
  // The weight cache that models with these options use.
  Result<kvrt_cache_props> cache(const kvrt_model_options& options = init<kvrt_model_options>()) const noexcept {
    auto out = init<kvrt_cache_props>();
    const Status status = kvrt_model_cache(get(), &options, &out, nullptr);
    return {status, out};
  }
  // The contents of a file, as JSON.
  template <class C>
  Status inspect(std::string_view path, std::uint32_t flags, C& json) const {
    return detail::fill(json, [&](char* data, std::size_t capacity, std::size_t* needed) -> Status {
      return kvrt_model_inspect(get(), path.data(), path.size(), flags, data, capacity, needed, nullptr);
    });
  }
};

// ---- model ---------------------------------------------------------------------------------------------------------------------------

class Model : public detail::Shared<kvrt_model, kvrt_model_retain, kvrt_model_release> {
 public:
  using Shared::Shared;
  template <class F = const NoCallback>
  static Result<Model> open(const Runtime& runtime, std::string_view path, const kvrt_model_options& options = init<kvrt_model_options>(),
                            F&& progress = F()) {
    kvrt_model* out = nullptr;
    detail::Callback<std::remove_reference_t<F>> callback(progress);
    const kvrt_status status =
        kvrt_model_open(runtime.get(), path.data(), path.size(), &options, callback.function(), &callback, &out, nullptr);
    Model model(out);
    return {callback.finish(status), std::move(model)};
  }
  Result<kvrt_model_props> info() const noexcept {
    auto out = init<kvrt_model_props>();
    const Status status = kvrt_model_info(get(), &out, nullptr);
    return {status, out};
  }
  Status tokenize(std::string_view text, std::uint32_t flags, Span<std::int32_t> tokens, std::size_t& needed) const noexcept {
    return kvrt_model_tokenize(get(), text.data(), text.size(), flags, tokens.data(), tokens.size(), &needed, nullptr);
  }
  template <class C>
  Status tokenize(std::string_view text, std::uint32_t flags, C& tokens) const {
    return detail::fill(tokens, [&](std::int32_t* data, std::size_t capacity, std::size_t* needed) -> Status {
      return kvrt_model_tokenize(get(), text.data(), text.size(), flags, data, capacity, needed, nullptr);
    });
  }
  Status detokenize(Span<const std::int32_t> tokens, std::uint32_t flags, Span<char> text, std::size_t& needed) const noexcept {
    return kvrt_model_detokenize(get(), tokens.data(), tokens.size(), flags, text.data(), text.size(), &needed, nullptr);
  }
  template <class C>
  Status detokenize(Span<const std::int32_t> tokens, std::uint32_t flags, C& text) const {
    return detail::fill(text, [&](char* data, std::size_t capacity, std::size_t* needed) -> Status {
      return kvrt_model_detokenize(get(), tokens.data(), tokens.size(), flags, data, capacity, needed, nullptr);
    });
  }
  // Works on a NULL model too, where the options have a template.
  Status apply_template(std::string_view messages, const kvrt_template_options& options, Span<char> text,
                        std::size_t& needed) const noexcept {
    return kvrt_model_apply_template(get(), messages.data(), messages.size(), &options, text.data(), text.size(), &needed, nullptr);
  }
  template <class C>
  Status apply_template(std::string_view messages, const kvrt_template_options& options, C& text) const {
    return detail::fill(text, [&](char* data, std::size_t capacity, std::size_t* needed) -> Status {
      return kvrt_model_apply_template(get(), messages.data(), messages.size(), &options, data, capacity, needed, nullptr);
    });
  }
  // Computes for up to `ms`. The result is the number of sessions that could go on.
  Result<std::uint32_t> step(std::uint32_t ms) const noexcept {
    std::uint32_t runnable = 0;
    const Status status = kvrt_model_step(get(), ms, &runnable, nullptr);
    return {status, runnable};
  }
  Result<kvrt_metrics> metrics() const noexcept {
    auto out = init<kvrt_metrics>();
    const Status status = kvrt_model_metrics(get(), &out, nullptr);
    return {status, out};
  }
  // An empty label stands for the model's name.
  Status metrics_text(std::string_view label, Span<char> text, std::size_t& needed) const noexcept {
    return kvrt_model_metrics_text(get(), label.empty() ? nullptr : label.data(), label.size(), text.data(), text.size(), &needed, nullptr);
  }
  template <class C>
  Status metrics_text(std::string_view label, C& text) const {
    return detail::fill(text, [&](char* data, std::size_t capacity, std::size_t* needed) {
      return metrics_text(label, Span<char>(data, capacity), *needed);
    });
  }
};

// ---- store ---------------------------------------------------------------------------------------------------------------------------

class Store : public detail::Shared<kvrt_store, kvrt_store_retain, kvrt_store_release> {
 public:
  using Shared::Shared;
  static Result<Store> open(const Runtime& runtime, std::string_view path,
                            const kvrt_store_options& options = init<kvrt_store_options>()) noexcept {
    kvrt_store* out = nullptr;
    const Status status = kvrt_store_open(runtime.get(), path.data(), path.size(), &options, &out, nullptr);
    return {status, Store(out)};
  }
  Result<kvrt_store_props> info() const noexcept {
    auto out = init<kvrt_store_props>();
    const Status status = kvrt_store_info(get(), &out, nullptr);
    return {status, out};
  }
  // domain {}: the sessions of all domains; "": those of the default one.
  template <class F>
  Status list(std::string_view domain, F&& f) const {
    detail::Callback<std::remove_reference_t<F>> callback(f);
    return callback.finish(kvrt_store_list(get(), domain.data(), domain.size(), callback.function(), &callback, nullptr));
  }
  Result<kvrt_store_entry> stat(std::string_view name, std::string_view domain = {}) const noexcept {
    auto out = init<kvrt_store_entry>();
    const Status status = kvrt_store_stat(get(), domain.data(), domain.size(), name.data(), name.size(), &out, nullptr);
    return {status, out};
  }
  // The contents of a saved session, as JSON.
  template <class C>
  Status show(std::string_view name, C& json, std::string_view domain = {}) const {
    return detail::fill(json, [&](char* data, std::size_t capacity, std::size_t* needed) -> Status {
      return kvrt_store_show(get(), domain.data(), domain.size(), name.data(), name.size(), data, capacity, needed, nullptr);
    });
  }
  Status remove(std::string_view name, std::string_view domain = {}) const noexcept {
    return kvrt_store_remove(get(), domain.data(), domain.size(), name.data(), name.size(), nullptr);
  }
  Status rename(std::string_view from, std::string_view to, std::string_view domain = {}) const noexcept {
    return kvrt_store_rename(get(), domain.data(), domain.size(), from.data(), from.size(), to.data(), to.size(), nullptr);
  }
  Status pin(std::string_view name, uint32_t pinned, std::string_view domain = {}) const noexcept {
    return kvrt_store_pin(get(), domain.data(), domain.size(), name.data(), name.size(), pinned, nullptr);
  }
  Status set_ttl(std::string_view name, std::uint64_t seconds, std::string_view domain = {}) const noexcept {
    return kvrt_store_set_ttl(get(), domain.data(), domain.size(), name.data(), name.size(), seconds, nullptr);
  }
  template <class F = const NoCallback>
  Result<kvrt_gc_report> gc(F&& progress = F()) const {
    auto out = init<kvrt_gc_report>();
    detail::Callback<std::remove_reference_t<F>> callback(progress);
    const Status status = callback.finish(kvrt_store_gc(get(), callback.function(), &callback, &out, nullptr));
    return {status, out};
  }
  // Removes catalog.db.old and damaged-<n>. The result is the number of bytes that they had.
  Result<std::uint64_t> remove_old() const noexcept {
    std::uint64_t out = 0;
    const Status status = kvrt_store_remove_old(get(), &out, nullptr);
    return {status, out};
  }
  // CORRUPT when there was a fault; f sees every fault.
  template <class F = const NoCallback>
  Status verify(F&& f = F()) const {
    detail::Callback<std::remove_reference_t<F>> callback(f);
    return callback.finish(kvrt_store_verify(get(), callback.function(), &callback, nullptr));
  }
  // Repairs a directory that no process has open; f sees every fault and its outcome.
  template <class F = const NoCallback>
  static Result<kvrt_repair_report> repair(const Runtime& runtime, std::string_view path, F&& f = F()) {
    auto out = init<kvrt_repair_report>();
    detail::Callback<std::remove_reference_t<F>> callback(f);
    const Status status =
        callback.finish(kvrt_store_repair(runtime.get(), path.data(), path.size(), callback.function(), &callback, &out, nullptr));
    return {status, out};
  }
};

// ---- cancel --------------------------------------------------------------------------------------------------------------------------

// Set options.cancel = cancel.get(): then fire() ends every generation that was begun with these options.
class Cancel : public detail::Shared<kvrt_cancel, kvrt_cancel_retain, kvrt_cancel_release> {
 public:
  using Shared::Shared;
  static Result<Cancel> open() noexcept {
    kvrt_cancel* out = nullptr;
    const Status status = kvrt_cancel_open(&out, nullptr);
    return {status, Cancel(out)};
  }
  void fire() const noexcept { kvrt_cancel_fire(get()); }
  bool fired() const noexcept { return kvrt_cancel_fired(get()) != 0; }
};

// ---- session -------------------------------------------------------------------------------------------------------------------------

class Session {
 public:
  Session() noexcept = default;
  explicit Session(kvrt_session* adopted) noexcept : handle_(adopted) {}
  Session(Session&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    if (this != &other) kvrt_session_close(std::exchange(handle_, std::exchange(other.handle_, nullptr)));
    return *this;
  }
  ~Session() { close(); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  kvrt_session* get() const noexcept { return handle_; }
  void close() noexcept { kvrt_session_close(std::exchange(handle_, nullptr)); }

  static Result<Session> open(const Model& model, const kvrt_session_options& options = init<kvrt_session_options>()) noexcept {
    kvrt_session* out = nullptr;
    const Status status = kvrt_session_open(model.get(), &options, &out, nullptr);
    return {status, Session(out)};
  }
  // `report` may be NULL, as in kvrt.h.
  template <class F = const NoCallback>
  static Result<Session> resume(const Model& model, const Store& store, std::string_view name,
                                const kvrt_session_options& options = init<kvrt_session_options>(), kvrt_report* report = nullptr,
                                F&& progress = F()) {
    kvrt_session* out = nullptr;
    detail::Callback<std::remove_reference_t<F>> callback(progress);
    const kvrt_status status = kvrt_session_resume(model.get(), store.get(), name.data(), name.size(), &options, callback.function(),
                                                   &callback, report, &out, nullptr);
    Session session(out);
    return {callback.finish(status), std::move(session)};
  }
  // The saved session of this name; where there is none, an empty one with these options and `store`: its info()->revision is 0, and `report`
  // stays as it was. Autosave saves that under the name, unless the options have another; without autosave, save it under the name. Every
  // other failure of resume is one here, too.
  template <class F = const NoCallback>
  static Result<Session> resume_or_open(const Model& model, const Store& store, std::string_view name,
                                        const kvrt_session_options& options = init<kvrt_session_options>(), kvrt_report* report = nullptr,
                                        F&& progress = F()) {
    Result<Session> saved = resume(model, store, name, options, report, std::forward<F>(progress));
    if (saved.status() != KVRT_NOT_FOUND) return saved;
    kvrt_session_options fresh = options;
    fresh.store = store.get();
    if (fresh.autosave_name_size == 0) assign(fresh.autosave_name, fresh.autosave_name_size, name);
    return open(model, fresh);
  }
  Result<Session> fork(const kvrt_session_options& options = init<kvrt_session_options>()) noexcept {
    kvrt_session* out = nullptr;
    const Status status = kvrt_session_fork(handle_, &options, &out, nullptr);
    return {status, Session(out)};
  }

  Result<kvrt_session_props> info() const noexcept {
    auto out = init<kvrt_session_props>();
    const Status status = kvrt_session_info(handle_, &out, nullptr);
    return {status, out};
  }
  Status append(Span<const std::int32_t> tokens) noexcept { return kvrt_session_append(handle_, tokens.data(), tokens.size(), nullptr); }
  Status append_text(std::string_view text, std::uint32_t flags = 0) noexcept {
    return kvrt_session_append_text(handle_, text.data(), text.size(), flags, nullptr);
  }
  Result<kvrt_append_info> append_message(std::string_view json) noexcept {
    auto out = init<kvrt_append_info>();
    const Status status = kvrt_session_append_message(handle_, json.data(), json.size(), &out, nullptr);
    return {status, out};
  }
  Result<kvrt_append_info> set_messages(std::string_view json) noexcept {
    auto out = init<kvrt_append_info>();
    const Status status = kvrt_session_set_messages(handle_, json.data(), json.size(), &out, nullptr);
    return {status, out};
  }
  Status truncate(std::uint64_t count) noexcept { return kvrt_session_truncate(handle_, count, nullptr); }
  Status mark(std::uint64_t tokens = 0) noexcept { return kvrt_session_mark(handle_, tokens, nullptr); }
  Status erase(std::uint64_t from, std::uint64_t to) noexcept { return kvrt_session_erase(handle_, from, to, nullptr); }

  template <class F = const NoCallback>
  Result<kvrt_report> prefill(std::uint32_t logits = KVRT_LOGITS_NONE, F&& f = F()) {
    auto out = init<kvrt_report>();
    detail::Callback<std::remove_reference_t<F>> callback(f);
    const Status status = callback.finish(kvrt_session_prefill(handle_, logits, callback.function(), &callback, &out, nullptr));
    return {status, out};
  }
  template <class F = const NoCallback>
  Result<kvrt_report> generate(const kvrt_generate_options& options = init<kvrt_generate_options>(), F&& f = F()) {
    auto out = init<kvrt_report>();
    detail::Callback<std::remove_reference_t<F>> callback(f);
    const Status status = callback.finish(kvrt_session_generate(handle_, &options, callback.function(), &callback, &out, nullptr));
    return {status, out};
  }
  Status begin(const kvrt_generate_options& options = init<kvrt_generate_options>()) noexcept {
    return kvrt_session_begin(handle_, &options, nullptr);
  }
  Result<Event> next(std::int32_t timeout_ms = -1) noexcept {
    Event out;
    const Status status = kvrt_session_next(handle_, &out, timeout_ms, nullptr);
    return {status, out};
  }
  Events events(Status& end) noexcept { return Events(handle_, end); }
  Status accept(std::int32_t token) noexcept { return kvrt_session_accept(handle_, token, nullptr); }
  Status cancel() const noexcept { return kvrt_session_cancel(handle_, nullptr); }

  Status tokens(Span<std::int32_t> out, std::size_t& needed) const noexcept {
    return kvrt_session_tokens(handle_, out.data(), out.size(), &needed, nullptr);
  }
  template <class C>
  Status tokens(C& out) const {
    return detail::fill(out, [&](std::int32_t* data, std::size_t capacity, std::size_t* needed) -> Status {
      return kvrt_session_tokens(handle_, data, capacity, needed, nullptr);
    });
  }
  Status text(std::uint64_t from, std::uint64_t to, std::uint32_t flags, Span<char> out, std::size_t& needed) const noexcept {
    return kvrt_session_text(handle_, from, to, flags, out.data(), out.size(), &needed, nullptr);
  }
  template <class C>
  Status text(std::uint64_t from, std::uint64_t to, std::uint32_t flags, C& out) const {
    return detail::fill(out, [&](char* data, std::size_t capacity, std::size_t* needed) -> Status {
      return kvrt_session_text(handle_, from, to, flags, data, capacity, needed, nullptr);
    });
  }
  // `props` may be NULL.
  Status message(std::uint64_t index, kvrt_message_props* props, Span<char> json, std::size_t& needed) const noexcept {
    return kvrt_session_message(handle_, index, props, json.data(), json.size(), &needed, nullptr);
  }
  template <class C>
  Status message(std::uint64_t index, kvrt_message_props* props, C& json) const {
    return detail::fill(json, [&](char* data, std::size_t capacity, std::size_t* needed) -> Status {
      return kvrt_session_message(handle_, index, props, data, capacity, needed, nullptr);
    });
  }

  Result<kvrt_save_report> checkpoint(std::string_view name, const kvrt_save_options& options = init<kvrt_save_options>()) noexcept {
    auto out = init<kvrt_save_report>();
    const Status status = kvrt_session_checkpoint(handle_, name.data(), name.size(), &options, &out, nullptr);
    return {status, out};
  }
  Result<kvrt_save_report> suspend(std::string_view name, const kvrt_save_options& options = init<kvrt_save_options>()) noexcept {
    auto out = init<kvrt_save_report>();
    const Status status = kvrt_session_suspend(handle_, name.data(), name.size(), &options, &out, nullptr);
    return {status, out};
  }

 private:
  kvrt_session* handle_ = nullptr;
};

}  // namespace kvrt

#endif
