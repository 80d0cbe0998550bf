// The program kvrt: the command line over kvrt.h. Its commands and what each takes.
#include <signal.h>

#include <exception>
#include <new>

#include "bindings/cli/app.h"

namespace {

using namespace cli;

template <typename Flags>
void on(CLI::App* command, const std::shared_ptr<Flags>& flags, int (*run)(const Flags&), int& code) {
  command->callback([flags, run, &code] { code = run(*flags); });
}

void define_run(CLI::App& app, int& code) {
  auto flags = std::make_shared<RunFlags>();
  auto* c = app.add_subcommand("run", "append a prompt, generate, and save the session");
  add_model(c, flags->model);
  add_compute(c, flags->model);
  add_context(c, flags->model);
  add_prompt(c, flags->prompt, true);
  add_sampling(c, flags->sampling);
  c->add_option("-n", flags->max_tokens, "tokens to generate; 0 only computes the prompt and saves")->capture_default_str();
  c->add_option("--store", flags->store, "directory of saved sessions");
  c->add_option("--session", flags->session, "resumed where it exists, and saved to");
  add_foreign_kv(c, flags->accept_foreign_kv);
  c->add_option("--fork-from", flags->fork_from, "session to copy; the copy is saved as --session");
  c->add_option("--domain", flags->domain, "sharing scope in the store");
  c->add_option("--truncate", flags->truncate, "first rewind to N tokens");
  c->add_flag("--chat", flags->chat, "the text is a user's message, rendered by the model's template");
  c->add_flag("--no-save", flags->no_save, "leave the store as it is");
  c->add_flag("--overwrite", flags->overwrite, "replace another session of that name, or what another process saved meanwhile");
  add_durability(c, flags->durability);
  add_codec(c, flags->codec, "how the KV is stored");
  c->add_flag("--digest", flags->digest, "SHA-256 of the logits of every generated position");
  c->add_flag("--json", flags->json, "one JSON object on standard output");
  c->callback([c, flags, &code] {
    flags->store_named = is_named(c, "store");
    code = cmd_run(*flags);
  });
}

void define_chat(CLI::App& app, int& code) {
  auto flags = std::make_shared<ChatFlags>();
  auto* c = app.add_subcommand("chat", "chat in the terminal; Ctrl-C stops an answer, /help lists the commands");
  add_model(c, flags->model);
  add_compute(c, flags->model);
  add_context(c, flags->model);
  add_sampling(c, flags->sampling, "as the model's file suggests, else 0.7", "as the file suggests, else 0.05");
  c->add_option("-n", flags->max_tokens, "tokens per answer at most (0: until the model ends it)");
  auto* store = c->add_option("--store", flags->store, "directory of saved sessions");
  c->add_option("--session", flags->session, "name in the store")->capture_default_str()->needs(store);
  c->add_option("--domain", flags->domain, "sharing scope in the store")->needs(store);
  add_foreign_kv(c, flags->accept_foreign_kv);
  c->add_option("--system", flags->system, "system message of a new session");
  on(c, flags, cmd_chat, code);
}

void define_text(CLI::App& app, int& code) {
  auto flags = std::make_shared<TextFlags>();
  auto* c = app.add_subcommand("tokenize", "text to token ids; no BOS and no special tokens unless asked");
  add_model(c, flags->model);
  add_prompt(c, flags->prompt, false);
  c->add_flag("--special", flags->special, "text that spells a special token becomes it");
  c->add_flag("--bos", flags->bos, "begin with the model's BOS");
  c->add_flag("--json", flags->json, "{\"tokens\": [...]}");
  on(c, flags, cmd_tokenize, code);

  flags = std::make_shared<TextFlags>();
  c = app.add_subcommand("detokenize", "token ids to text");
  add_model(c, flags->model);
  c->add_option("--tokens", flags->prompt.tokens, "token ids 1,2,3 or @FILE of them")->required();
  c->add_flag("--special", flags->special, "spell special tokens out");
  c->add_flag("--json", flags->json, "{\"text\": ...}");
  on(c, flags, cmd_detokenize, code);
}

void define_template(CLI::App& app, int& code) {
  auto flags = std::make_shared<TemplateFlags>();
  auto* c = app.add_subcommand("template", "print a rendered chat prompt");
  add_model(c, flags->model, false);
  c->add_option("--template", flags->source_file, "Jinja file in place of the model's template");
  c->add_option("--messages", flags->messages_file, "JSON array of messages")->required();
  c->add_option("--tools", flags->tools_file, "JSON array for the template's tools");
  c->add_option("--documents", flags->documents_file, "JSON array for the template's documents");
  c->add_option("--var", flags->variables, "NAME=JSON: another variable of the template, enable_thinking=false");
  c->add_flag("--no-generation-prompt", flags->no_generation_prompt, "do not open the assistant's turn");
  c->callback([c, flags, &code] {
    if (!flags->source_file.empty() && !is_named(c, "model")) flags->model.model.clear();  // a default is for who names nothing
    if (flags->model.model.empty() && flags->source_file.empty()) throw CLI::RequiredError("-m or --template");
    code = cmd_template(*flags);
  });
}

void define_logits(CLI::App& app, int& code) {
  auto flags = std::make_shared<LogitsFlags>();
  auto* c = app.add_subcommand("logits", "write f32 little-endian logits rows");
  add_model(c, flags->model);
  add_compute(c, flags->model);
  c->add_option("--tokens", flags->tokens, "token ids 1,2,3 or @FILE of them")->required();
  c->add_option("-o,--output", flags->output, "file, - for standard output")->required();
  c->add_flag("--all", flags->all, "every position, not the last alone");
  on(c, flags, cmd_logits, code);
}

void define_perplexity(CLI::App& app, int& code) {
  auto flags = std::make_shared<PerplexityFlags>();
  auto* c = app.add_subcommand("perplexity", "how well a model predicts a text: the second half of each window is scored");
  add_model(c, flags->model);
  add_compute(c, flags->model);
  c->add_option("-f,--file", flags->file, "text file, - for standard input")->required();
  c->add_option("--context", flags->context, "tokens of a window")->check(within(3, 1u << 24))->capture_default_str();
  c->add_option("--chunks", flags->chunks, "only the first N windows (0: all)");
  c->add_flag("--json", flags->json, "one JSON object");
  on(c, flags, cmd_perplexity, code);
}

void define_inspect(CLI::App& app, int& code) {
  auto flags = std::make_shared<InspectFlags>();
  auto* c = app.add_subcommand("inspect", "what a GGUF file holds, and what of it kvrt cannot run");
  c->add_option("MODEL,-m,--model", flags->model, "GGUF file")->required();
  c->add_flag("--all", flags->all, "every tensor, and arrays to their end");
  c->add_flag("--json", flags->json, "one JSON object");
  on(c, flags, cmd_inspect, code);
}

void define_bench(CLI::App& app, int& code) {
  auto flags = std::make_shared<BenchFlags>();
  flags->model.no_weight_cache = true;  // as an application that links the library has it; --cache-dir is another thing to measure
  auto* c = app.add_subcommand("bench", "measure prefill, decode, appends, batches, and saving and loading of state");
  add_model(c, flags->model);
  add_compute(c, flags->model);
  c->add_option("--step-ms", flags->model.step_ms, "milliseconds of a step at most (0: 50, of a prompt alone 500)");
  c->add_option("-f,--file", flags->file, "text to take tokens from");
  constexpr uint32_t kTokensMax = 1u << 24;
  const auto list = [c](const char* name, std::vector<uint32_t>& values, uint32_t low, uint32_t high, const char* text) {
    const auto parse = [&values, name, low, high](const std::string& given) {
      const std::string wrong = parse_list(given, low, high, values);
      if (!wrong.empty()) throw CLI::ValidationError(name, wrong);
    };
    std::string defaults;
    for (uint32_t value : values) defaults += (defaults.empty() ? "" : ",") + std::to_string(value);
    c->add_option_function<std::string>(name, parse, text)->type_name("N,...|none")->default_str(defaults);
  };
  list("--prompt", flags->prompt, 1, kTokensMax, "prompt lengths");
  list("--depth", flags->depth, 0, kTokensMax, "tokens before decode");
  list("--append", flags->append, 1, kTokensMax, "tokens appended to each --depth but 0, and computed");
  list("--batch", flags->batch, 1, 1024, "sessions that generate together");
  list("--state", flags->state, 1, kTokensMax, "tokens of a saved session");
  c->add_option("--decode", flags->decode, "tokens per decode run")->capture_default_str()->check(within(1, 4096));
  add_codec(c, flags->codec, "how the saved session's KV is stored");
  c->add_option("--runs", flags->runs, "runs, of which the median counts")->capture_default_str()->check(within(1, 1000));
  c->add_flag("--json", flags->json, "one JSON object");
  on(c, flags, cmd_bench, code);
}

void define_store(CLI::App& app, int& code) {
  auto* store = app.add_subcommand("store", "look after a store of sessions");
  store->require_subcommand(1);
  const auto add = [&](const char* name, const char* text, int (*run)(const StoreFlags&), int names, const char* argument = nullptr) {
    auto flags = std::make_shared<StoreFlags>();
    auto* c = store->add_subcommand(name, text);
    c->add_option("DIR,--store", flags->directory, names > 1 ? "the store; may be left out before a single NAME" : "the store")->required();
    if (argument) {
      flags->names.resize(1);
      c->add_option("NAME", flags->names[0], "session")->required();
      c->add_option(argument, flags->argument, "what it is to be")->required();
    } else if (names) {
      auto* option = c->add_option("NAME", flags->names, "sessions");
      if (names > 1) option->required();
    }
    c->add_option_function<std::string>(
        "--domain",
        [flags](const std::string& domain) {
          flags->domain = domain;
          flags->all_domains = false;
        },
        "sharing scope");
    c->add_flag("--json", flags->json, "one JSON object a line");
    if (run == cmd_store_gc) c->add_flag("--old", flags->old, "also what migrations and repairs left: catalog.db.old, damaged-<n>");
    if (run == cmd_store_pin) {
      c->add_option("--priority", flags->priority, "who gives way when space is short: sessions of lower ones do")
          ->capture_default_str()
          ->check(within(1, 255));
    }
    on(c, flags, run, code);
  };
  add("ls", "list the sessions", cmd_store_ls, 0);
  add("stat", "show sessions, or the store", cmd_store_stat, 1);
  add("show", "show what is kept of sessions: messages, tokens, chunks of KV", cmd_store_show, 2);
  add("rm", "remove sessions", cmd_store_rm, 2);
  add("mv", "rename a session", cmd_store_mv, 2, "NEW");
  add("pin", "keep sessions from expiring, and their KV when space is short", cmd_store_pin, 2);
  add("unpin", "let them expire again", cmd_store_unpin, 2);
  add("ttl", "let a session expire after a time: 90 (seconds), 45m, 12h, 30d, or never", cmd_store_ttl, 2, "TIME");
  add("gc", "remove expired sessions, and chunks and files that no session needs", cmd_store_gc, 0);
  add("verify", "read and check everything; exits 1 with a line per fault", cmd_store_verify, 0);
  add("repair", "make a damaged store sound again; nobody may have it open", cmd_store_repair, 0);
}

void define_plan(CLI::App& app, int& code) {
  auto flags = std::make_shared<PlanFlags>();
  auto* c = app.add_subcommand("plan", "what a model and its sessions cost in memory, before anything is loaded");
  add_model(c, flags->model, false);
  c->add_option("--context", flags->context, "tokens of each session (0: the model's context)");
  c->add_option("--sessions", flags->sessions, "how many (0: 1)");
  c->add_option("--shared", flags->shared, "leading tokens that all sessions have in common");
  add_kv(c, flags->model);
  add_device(c, flags->model);
  c->add_option("--memory", flags->memory, "budget, 8G is 8 GiB (0: what is free on the device)")->type_name("SIZE")->transform(size());
  c->add_option("--layers", flags->layers, "a model that is no file: its layers,");
  c->add_option("--kv-heads", flags->kv_heads, "KV heads");
  c->add_option("--head-dim", flags->head_dim, "and dimensions of a head");
  c->add_flag("--json", flags->json, "one JSON object");
  c->callback([c, flags, &code] {
    const bool geometry = flags->layers || flags->kv_heads || flags->head_dim;
    if (geometry && !is_named(c, "model")) flags->model.model.clear();  // a default is for who names nothing
    if (!geometry && flags->model.model.empty()) throw CLI::RequiredError("-m FILE, or --layers, --kv-heads and --head-dim");
    code = cmd_plan(*flags);
  });
}

// help is there for its own help: reversed_words() makes --help of it. share is for packagers and not listed.
void define_manual(CLI::App& app, int& code) {
  auto json = std::make_shared<bool>();
  auto* c = app.add_subcommand("version", "what this program is made of: versions, ABI, libraries, instruction set");
  c->add_flag("--json", *json, "one JSON object");
  c->callback([json, &code] { code = cmd_version(*json); });

  auto word = std::make_shared<std::string>();
  c = app.add_subcommand("completion", "print a shell's completions");
  c->add_option("SHELL", *word, "bash, zsh or fish")->required()->check(one_of({"bash", "zsh", "fish"}));
  c->callback([&app, word, &code] {
    put("{}", completion(describe(app), *word));
    code = finish(KVRT_OK);
  });

  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  auto words = std::make_shared<std::vector<std::string>>();
  app.add_subcommand("help", "the same as --help, of the program or of a command")
      ->add_option("COMMAND", *words, "run, or store gc")
      ->check(one_of(names));

  c = app.add_subcommand("share", "write man pages and completions as they lie below share/")->group("");
  c->add_option("DIR", *word, "where to")->required();
  c->callback([&app, word, &code] { code = write_share(describe(app), *word); });
}

void define_rest(CLI::App& app, int& code) {
  auto doctor = std::make_shared<DoctorFlags>();
  auto* c = app.add_subcommand("doctor", "what works on this machine and what to do about the rest");
  c->add_option("DIR,--store", doctor->directory, "a store, or where one shall be");
  add_cuda(c, doctor->model);
  add_prompt_gemm(c, doctor->model);
  add_cache(c, doctor->model);
  c->add_flag("--json", doctor->json, "one JSON object a line");
  on(c, doctor, cmd_doctor, code);

  auto demo = std::make_shared<DemoFlags>();
  c = app.add_subcommand("demo", "show a conversation that is killed in the middle of an answer and goes on in a new process");
  add_model(c, demo->model);
  add_compute(c, demo->model);
  c->add_option("--store", demo->store, "an empty directory")->required();
  c->add_option("--stage", demo->stage, "")->group("");  // of the processes that it starts
  on(c, demo, cmd_demo, code);
}

int run(const std::vector<std::string>& words) {
  int code = 0;
  CLI::App app("LLM inference whose conversations survive the process", "kvrt");
  app.set_help_flag("-h,--help", "this text");
  app.set_version_flag("--version", "kvrt " + version_text(), "the version");
  app.formatter_fn([](const CLI::App* of, const std::string&, CLI::AppFormatMode) { return help_text(describe(*of)); });
  app.require_subcommand(1);
  define_run(app, code);
  define_chat(app, code);
  define_text(app, code);
  define_template(app, code);
  define_logits(app, code);
  define_perplexity(app, code);
  define_inspect(app, code);
  define_bench(app, code);
  define_plan(app, code);
  define_store(app, code);
  define_rest(app, code);
  define_manual(app, code);
  complete(app);
  const std::string broken = load_defaults();
  app.parse_complete_callback([&] {
    if (!broken.empty() && takes_defaults(app)) throw CLI::ConfigError(broken);
  });
  try {
    app.parse(std::vector<std::string>(words));
  } catch (const CLI::ParseError& error) {
    if (const auto again = with_store(app, error, words); again != words) return run(again);
    return explain(app, error, broken);
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGXFSZ, SIG_IGN);  // a write past the limit fails instead, and says so
  try {
    return run(reversed_words(argc, argv));
  } catch (const std::bad_alloc&) {
    return complain(KVRT_NO_MEMORY, "this program's own memory does not suffice");
  } catch (const std::exception& error) {
    return complain(KVRT_INTERNAL, error.what());
  }
}
