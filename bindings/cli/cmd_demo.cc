// kvrt demo: a conversation that survives SIGKILL. Three processes of this program, each a stage:
//   talk     one turn, saved; the next answer begins, and this process is killed in the middle of it
//   resume   a new process: the last committed turn from disk, then the answer again, 32 tokens
//   whole    a process that was never killed and has no store: the same conversation, and the time of computing it all again
// The parent kills, compares and reports; it opens no kvrt handle itself.
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bindings/cli/commands.h"
#include "bindings/cli/wrap.h"

namespace cli {

namespace {

constexpr std::string_view kName = "demo";
constexpr uint32_t kCompare = 32;  // tokens that are compared
constexpr uint64_t kSeed = 7;      // a draw depends on it and on the position alone: every process draws the same
constexpr int kKillAfter = 12;     // tokens of the second answer before the kill
constexpr std::string_view kSystem =
    "You are the keeper of a small lighthouse on a northern island, and you answer letters from visitors. You know the lamp, its clockwork "
    "and its lens; the fog signal and the engine that drives it; the boats that bring oil, flour and post on the first Monday of the month "
    "when the sea allows; the gulls, the puffins and the seals; the storm of the winter before last, which took the hen house and spared "
    "the hens. You write plainly, in short sentences, with a dry kind of humour, and you never invent dates. When a visitor asks for "
    "directions, you give them from the landing: up the steps, left at the white stone, along the wall, and mind the bull. When a visitor "
    "asks about the weather, you say what the glass says and what the birds say, and that the birds are right. You have one assistant, who "
    "is "
    "afraid of the stairs, and a dog, who is not. Every evening you light the lamp at sunset, wind the clockwork every three hours, and "
    "write "
    "the log: the wind, the sea, the ships that passed, and what there was for dinner. You are proud that the lamp has not failed in nine "
    "years.";
constexpr std::string_view kFirst =
    "Dear keeper, I plan to come to the island with my two children next month. We have a small boat, but none of us has landed there "
    "before. "
    "Please tell us what we should bring, where we can put up a tent, and what the children should not miss.";
constexpr std::string_view kSecond = "Thank you! Now please tell the children a long story about the dog and the storm.";

kvrt_status append(Session& session, std::string_view role, std::string_view text) {
  return checked(session.append_message(message_json(role, text)).status(), "cannot append the message");
}

struct Opened {
  Runtime runtime;
  Model model;
  Store store;
  SamplingFlags sampling;
};

struct Answer {
  bool print = false;
  std::vector<int32_t> tokens = {};
  LogitsDigest digest = {};
  kvrt_report report = {};
};

kvrt_status generate(const Opened& at, Session& session, uint32_t count, bool exactly, Answer& answer) {
  std::string stop;
  kvrt_generate_options options = generate_options(at.sampling, count, stop);
  options.ignore_eos = options.emit_logits = exactly;
  const Result<kvrt_report> report = session.generate(options, [&](const Event& event) {
    if (event.type == KVRT_EVENT_LOGITS) answer.digest.add(event.logits, event.logits_count);
    if (event.type != KVRT_EVENT_TOKEN) return;
    answer.tokens.push_back(event.token);
    if (answer.print) Json().add("token", event.text_view()).print(), flush_out();
  });
  answer.report = *report;
  return checked(report.status(), "cannot generate");
}

// The first turn of both the killed and the whole conversation.
kvrt_status first_turn(const Opened& at, Session& session, bool print) {
  if (kvrt_status s = append(session, "system", kSystem)) return s;
  if (kvrt_status s = append(session, "user", kFirst)) return s;
  Answer answer{.print = print};
  return generate(at, session, 96, false, answer);
}

kvrt_status open(const DemoFlags& flags, bool with_store, Opened& out) {
  if (kvrt_status s = open_runtime(flags.model, out.runtime)) return s;
  if (kvrt_status s = open_model(flags.model, out.runtime, out.model)) return s;
  if (kvrt_status s = check_template(out.model, flags.model.model)) return s;
  suggest_sampling(out.runtime, flags.model.model, out.sampling);
  out.sampling.seed = kSeed;
  return with_store ? open_store(out.runtime, flags.store, false, false, out.store) : KVRT_OK;
}

kvrt_status open_session(const Opened& at, bool share, Session& out) {
  auto options = init<kvrt_session_options>();
  options.store = at.store.get();
  options.no_prefix_cache = !share;
  return take(Session::open(at.model, options), out, "cannot open a session");
}

kvrt_status stage_talk(const DemoFlags& flags) {
  Opened at;
  Session session;
  if (kvrt_status s = open(flags, true, at)) return s;
  if (kvrt_status s = open_session(at, true, session)) return s;
  Json().add("ready", true).print();
  flush_out();
  if (kvrt_status s = first_turn(at, session, true)) return s;
  const Result<kvrt_save_report> saved = session.checkpoint(kName);
  if (kvrt_status s = checked(saved.status(), "cannot save")) return s;
  Json().add("saved", saved->tokens).add("bytes", saved->bytes_written).add("ms", saved->ms).print();
  flush_out();
  if (kvrt_status s = append(session, "user", kSecond)) return s;
  Answer answer{.print = true};
  return generate(at, session, 2000, true, answer);
}

kvrt_status stage_resume(const DemoFlags& flags) {
  Opened at;
  if (kvrt_status s = open(flags, true, at)) return s;
  auto resumed = init<kvrt_report>();
  const auto start = now();
  Result<Session> session = Session::resume(at.model, at.store, kName, init<kvrt_session_options>(), &resumed);
  const double resume_ms = ms_since(start);
  if (kvrt_status s = checked(session.status(), "cannot resume")) return s;
  const uint64_t committed = session->info()->tokens;
  const kvrt_model_props props = *at.model.info();
  const kvrt_store_props store = *at.store.info();
  if (kvrt_status s = append(*session, "user", kSecond)) return s;
  Answer answer;
  if (kvrt_status s = generate(at, *session, kCompare, true, answer)) return s;
  const kvrt_report& report = answer.report;
  Json json;
  json.add("committed", committed).add("block_tokens", uint64_t{props.block_tokens}).add("from_disk", resumed.reused_disk);
  json.add("resume_ms", resume_ms).add("ttft_ms", report.ttft_ms).add("prompt_tokens", report.prompt_tokens);
  json.add("prefilled", report.prefilled).add("chunk_bytes", store.chunk_bytes).add("raw_bytes", store.chunk_raw_bytes);
  json.add("disk_bytes", store.disk_bytes).add("tokens", join(answer.tokens)).add("digest", answer.digest.hex()).print();
  return KVRT_OK;
}

kvrt_status stage_whole(const DemoFlags& flags) {
  Opened at;
  Session session, again;
  if (kvrt_status s = open(flags, false, at)) return s;
  if (kvrt_status s = open_session(at, true, session)) return s;
  if (kvrt_status s = first_turn(at, session, false)) return s;
  if (kvrt_status s = append(session, "user", kSecond)) return s;
  Answer answer, first;
  if (kvrt_status s = generate(at, session, kCompare, true, answer)) return s;
  const uint64_t prompt = answer.report.prompt_tokens;
  // The cost without a store: an application computes the whole prompt from nothing, up to the first token.
  std::vector<int32_t> tokens;
  if (kvrt_status s = session_tokens(session, tokens)) return s;
  if (kvrt_status s = open_session(at, false, again)) return s;
  if (kvrt_status s = checked(again.append({tokens.data(), prompt}), "cannot append")) return s;
  if (kvrt_status s = generate(at, again, 1, true, first)) return s;
  if (first.tokens.at(0) != answer.tokens.at(0)) return complain(KVRT_INTERNAL, "recomputing the prompt gave another first token");
  Json json;
  json.add("tokens", join(answer.tokens)).add("digest", answer.digest.hex());
  json.add("prompt_tokens", prompt).add("recompute_ms", first.report.ttft_ms).print();
  return KVRT_OK;
}

// ---- the parent -----------------------------------------------------------------------------------------------------------------

// The options of the model as words for a stage.
std::vector<std::string> words_of(const ModelFlags& flags) {
  std::vector<std::string> words = {"-m", flags.model, "--device", flags.device, "--determinism", flags.determinism};
  words.insert(words.end(), {"--kv-k", k_format(flags), "--kv-v", v_format(flags)});
  const auto text = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  const auto number = [&](const char* option, uint64_t value) { text(option, value ? std::to_string(value) : ""); };
  text("--isa", flags.isa);
  text("--cuda-library", flags.cuda_library);
  text("--prompt-gemm", flags.prompt_gemm);
  text("--cache-dir", flags.cache_dir);
  number("--cache-bytes", flags.cache_bytes);
  number("--kv-bytes", flags.kv_bytes);
  number("--device-index", flags.device_index);
  number("--threads", flags.threads);
  number("--block-tokens", flags.block_tokens);
  number("--prefill-chunk", flags.prefill_chunk);
  if (flags.no_weight_cache) words.emplace_back("--no-weight-cache");
  return words;
}

// A stage in a process of its own, whose standard output is read line by line.
class Stage {
 public:
  Stage(const DemoFlags& flags, const char* name) {
    int ends[2];
    if (pipe(ends) != 0) return;
    std::vector<std::string> args = {"kvrt", "demo", "--store", flags.store, "--stage", name};
    for (std::string& word : words_of(flags.model)) args.push_back(std::move(word));
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    flush_out();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]);
      close(ends[1]);
      execv("/proc/self/exe", argv.data());
      _exit(127);
    }
    close(ends[1]);
    out_ = fdopen(ends[0], "r");
  }
  ~Stage() {
    if (out_) std::fclose(out_);
    if (pid_ > 0) kill(SIGKILL), wait();
    free(line_);
  }
  Stage(const Stage&) = delete;
  pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }

  // The next line as JSON; null at the end of the output.
  nlohmann::json next() {
    const ssize_t n = out_ ? getline(&line_, &capacity_, out_) : -1;
    return n <= 0 ? nlohmann::json() : nlohmann::json::parse(line_, line_ + n, nullptr, false);
  }
  int wait() {  // the raw status
    int status = -1;
    if (pid_ > 0) waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  FILE* out_ = nullptr;
  char* line_ = nullptr;
  size_t capacity_ = 0;
};

// Runs a stage that prints one object and exits 0.
nlohmann::json run_stage(const DemoFlags& flags, const char* name) {
  Stage stage(flags, name);
  nlohmann::json result = stage.next();
  const int status = stage.wait();
  return status == 0 && result.is_object() ? result : nlohmann::json();
}

// Why the stage ended before it was killed: it told the user, or an answer that nothing but the context can end was too short.
kvrt_status ended(Stage& stage) {
  const int status = stage.wait();
  if (!WIFEXITED(status)) return complain(KVRT_INTERNAL, "demo: the first process was not killed in the middle of its answer");
  if (!WEXITSTATUS(status))
    return complain(KVRT_LIMIT, fmt::format("demo: the model's context was full before {} tokens of the second answer", kKillAfter));
  if (WEXITSTATUS(status) == KVRT_LIMIT) say("(the demo needs a model with a longer context, or more --kv-bytes)\n");
  return static_cast<kvrt_status>(WEXITSTATUS(status));
}

void show_indented(std::string_view text) {
  put("  ");
  ShownAnswer shown(2);
  shown.add(std::string(text));
  shown.end();
  put("\n");
}

// Runs the stage talk, and kills it in the middle of the second answer. `saved`: its report of the save.
kvrt_status talk_and_kill(const DemoFlags& flags, nlohmann::json& saved) {
  Stage stage(flags, "talk");
  const pid_t pid = stage.pid();
  int after_save = 0;
  if (!stage.next().contains("ready")) return ended(stage);
  put("\n[process {}] a visitor asks the keeper of a lighthouse:\n", pid);
  show_indented(kFirst);
  put("[process {}] the first answer:\n  ", pid);
  ShownAnswer answer(2);
  while (after_save < kKillAfter) {
    const nlohmann::json line = stage.next();
    if (!line.is_object()) return answer.end(), put("\n"), flush_out(), ended(stage);
    if (line.contains("saved")) {
      saved = line;
      answer.end();
      put("\n[process {}] saved {} tokens, {} of KV, in {:.1f} ms. The visitor asks again:\n", pid, line["saved"].get<uint64_t>(),
          human_bytes(line["bytes"].get<uint64_t>()), line["ms"].get<double>());
      show_indented(kSecond);
      put("[process {}] begins the second answer:\n  ", pid);
      answer = ShownAnswer(2);
    } else {
      answer.add(line["token"].get<std::string>());
      if (!saved.is_null()) ++after_save;
    }
    flush_out();
  }
  stage.kill(SIGKILL);
  const int status = stage.wait();
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
    return complain(KVRT_INTERNAL, "demo: the first process was not killed in the middle of its answer");
  answer.end();
  put(" ...\n[process {}] killed by SIGKILL after {} tokens of it.\n", pid, after_save);
  return KVRT_OK;
}

// Compares the resumed conversation with the one that was never killed, and prints each check. True: all hold.
bool judge(const nlohmann::json& saved, const nlohmann::json& resumed, const nlohmann::json& whole) {
  bool good = true;
  const auto check = [&good](bool holds, const std::string& text) {
    put("  {}  {}\n", holds ? "ok  " : "FAIL", text);
    good = good && holds;
  };
  const uint64_t committed = resumed["committed"], block = resumed["block_tokens"], disk = resumed["from_disk"];
  const uint64_t sealed = (committed - 1) / block * block;  // the last token has no KV yet
  const uint64_t prompt = resumed["prompt_tokens"], prefilled = resumed["prefilled"];
  const double resume = resumed["resume_ms"].get<double>() + resumed["ttft_ms"].get<double>(), recompute = whole["recompute_ms"];
  put("\nto the first token of the next answer: {:.1f} ms resumed ({:.1f} from disk, {:.1f} for the new message), {:.1f} ms computed "
      "again\n",
      resume, resumed["resume_ms"].get<double>(), resumed["ttft_ms"].get<double>(), recompute);
  put("tokens of its prompt: {} = {} reused + {} computed: the new message, and the last token before it\n", prompt, prompt - prefilled,
      prefilled);
  put("on disk: {} of chunks for {} of KV, {} in all\n\n", human_bytes(resumed["chunk_bytes"]), human_bytes(resumed["raw_bytes"]),
      human_bytes(resumed["disk_bytes"]));
  check(committed == saved["saved"].get<uint64_t>(), fmt::format("resumed at the last committed turn: {} tokens", committed));
  check(sealed >= 3 * block && disk >= sealed,
        fmt::format("every sealed block came from disk: {} blocks of {} tokens, and {} tokens of the open one", sealed / block, block,
                    disk - std::min(disk, sealed)));
  check(prompt == whole["prompt_tokens"].get<uint64_t>() && prefilled <= prompt - sealed,
        fmt::format("nothing else was computed: {} tokens of {}", prefilled, prompt));
  check(resumed["tokens"] == whole["tokens"], fmt::format("the next {} tokens equal those of a process that was never killed", kCompare));
  check(resumed["digest"] == whole["digest"],
        "and so do their logits: SHA-256 " + resumed["digest"].get<std::string>().substr(0, 16) + "...");
  check(resume < recompute, fmt::format("resuming took {:.1f} % of the time of computing", 100 * resume / recompute));
  return good;
}

int parent(const DemoFlags& flags) {
  std::error_code missing;
  if (!std::filesystem::is_empty(flags.store, missing) && !missing) {
    return complain(KVRT_CONFLICT, in_quotes(flags.store) + " is not an empty directory: --store takes an empty one, or a new name");
  }
  nlohmann::json saved;
  if (kvrt_status s = talk_and_kill(flags, saved)) return finish(s);
  put("\nA new process goes on, and one that is never killed computes the same, to compare ...\n");
  flush_out();
  const nlohmann::json resumed = run_stage(flags, "resume");
  if (resumed.is_null()) return complain(KVRT_INTERNAL, "demo: the new process could not go on");
  const nlohmann::json whole = run_stage(flags, "whole");
  if (whole.is_null()) return complain(KVRT_INTERNAL, "demo: the run without a kill failed");
  return finish(judge(saved, resumed, whole) ? KVRT_OK : KVRT_INTERNAL);
}

}  // namespace

int cmd_demo(const DemoFlags& flags) {
  if (flags.stage == "talk") return finish(stage_talk(flags));
  if (flags.stage == "resume") return finish(stage_resume(flags));
  if (flags.stage == "whole") return finish(stage_whole(flags));
  return parent(flags);
}

}  // namespace cli
