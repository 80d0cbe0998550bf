// The program kvrt: the command line over kvrt.h. Its commands and their options.
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
  add_prompt(c, flags->prompt, true);
  c->add_flag("--chat", flags->chat, "the prompt is a user's message, rendered by the model's template");
  c->add_option("-n", flags->max_tokens, "tokens to generate at most; 0 only computes the prompt and saves")->capture_default_str();
  c->add_option("--store", flags->store, "directory of saved sessions");
  c->add_option("--session", flags->session, "session in the store: resumed if it exists, and saved");
  c->add_option("--fork-from", flags->fork_from, "session in the store to copy; the copy is saved as --session");
  c->add_option("--truncate", flags->truncate, "first rewind the session to its first N tokens");
  c->add_flag("--json", flags->json, "one JSON object on standard output");
  add_room(c, flags->model);
  add_sampling(c, flags->sampling);
  c->get_option_group("grammar")
      ->add_flag("--continue-grammar", flags->sampling.continue_grammar, "go on with an answer that was cut short, by the same grammar")
      ->excludes(c->get_option("--ignore-eos"));
  add_speculation(c, flags->speculation);
  c->add_option("--domain", flags->domain, "domain of the session; KV is shared only within one")->group(kSaving);
  c->add_flag("--no-save", flags->no_save, "save nothing of this run; the store has to exist")->group(kSaving);
  c->add_flag("--overwrite", flags->overwrite, "replace another session of that name, or a newer save of this one")->group(kSaving);
  add_durability(c, flags->durability);
  add_codec(c, flags->codec, "compression of the KV that is saved (default zstd)");
  add_foreign_kv(c, flags->accept_foreign_kv);
  add_compute(c, flags->model);
  c->add_flag("--digest", flags->digest, "print the SHA-256 of the logits of every generated position");
  c->callback([c, flags, &code] {
    flags->store_named = is_named(c, "store");
    code = cmd_run(*flags);
  });
}

void define_chat(CLI::App& app, int& code) {
  auto flags = std::make_shared<ChatFlags>();
  auto* c = app.add_subcommand("chat", "chat in the terminal; Ctrl-C stops an answer, /help lists the commands");
  add_model(c, flags->model);
  auto* store = c->add_option("--store", flags->store, "directory of saved sessions");
  c->add_option("--session", flags->session, "session in the store: resumed if it exists, and saved")->capture_default_str()->needs(store);
  c->add_option("--system", flags->system, "system message of a new session");
  c->add_option("-n", flags->max_tokens, "tokens per answer at most (default 0: until the model ends it)");
  add_room(c, flags->model);
  add_sampling(c, flags->sampling, "as the model's file suggests; 1 if it suggests only other values, else 0.7",
               "as the file suggests, else 0.05", "as the file suggests, else 0");
  add_speculation(c, flags->speculation);
  c->add_option("--domain", flags->domain, "domain of the session; KV is shared only within one")->needs(store)->group(kSaving);
  add_foreign_kv(c, flags->accept_foreign_kv);
  add_compute(c, flags->model);
  on(c, flags, cmd_chat, code);
}

void define_text(CLI::App& app, int& code) {
  auto flags = std::make_shared<TextFlags>();
  auto* c = app.add_subcommand("tokenize", "turn text into token ids; without BOS and special tokens unless asked");
  add_model(c, flags->model);
  add_prompt(c, flags->prompt, false);
  c->add_flag("--special", flags->special, "turn text that spells a special token into that token");
  c->add_flag("--bos", flags->bos, "begin with the model's BOS token");
  c->add_flag("--json", flags->json, "one JSON object: {\"tokens\": [...]}");
  on(c, flags, cmd_tokenize, code);

  flags = std::make_shared<TextFlags>();
  c = app.add_subcommand("detokenize", "turn token ids into text");
  add_model(c, flags->model);
  c->add_option("--tokens", flags->prompt.tokens, "token ids: 1,2,3, or @FILE that holds them")->required();
  c->add_flag("--special", flags->special, "spell special tokens out");
  c->add_flag("--json", flags->json, "one JSON object: {\"text\": ...}");
  on(c, flags, cmd_detokenize, code);
}

void define_template(CLI::App& app, int& code) {
  auto flags = std::make_shared<TemplateFlags>();
  auto* c = app.add_subcommand("template", "print messages as the chat template renders them");
  add_model(c, flags->model, false);
  c->add_option("--template", flags->source_file, "Jinja file in place of the model's template");
  c->add_option("--messages", flags->messages_file, "file with a JSON array of messages")->required();
  c->add_option("--tools", flags->tools_file, "file with a JSON array of tools for the template");
  c->add_option("--documents", flags->documents_file, "file with a JSON array of documents for the template");
  c->add_option("--var", flags->variables, "another variable of the template, such as enable_thinking=false; may be repeated");
  c->add_flag("--no-generation-prompt", flags->no_generation_prompt, "do not open the assistant's turn");
  c->callback([c, flags, &code] {
    if (!flags->source_file.empty() && !is_named(c, "model"))
      flags->model.model.clear();  // the default model counts only where nothing is named
    if (flags->model.model.empty() && flags->source_file.empty()) throw CLI::RequiredError("-m or --template");
    code = cmd_template(*flags);
  });
}

void define_logits(CLI::App& app, int& code) {
  auto flags = std::make_shared<LogitsFlags>();
  auto* c = app.add_subcommand("logits", "write rows of logits as little-endian f32");
  add_model(c, flags->model);
  add_compute(c, flags->model);
  add_kv_bytes(c, flags->model);
  c->add_option("--tokens", flags->tokens, "token ids: 1,2,3, or @FILE that holds them")->required();
  c->add_option("-o,--output", flags->output, "file, - for standard output")->required();
  c->add_flag("--all", flags->all, "write a row for every position, not only for the last");
  on(c, flags, cmd_logits, code);
}

void define_perplexity(CLI::App& app, int& code) {
  auto flags = std::make_shared<PerplexityFlags>();
  auto* c = app.add_subcommand("perplexity", "measure how well a model predicts a text: the second half of each window is scored");
  add_model(c, flags->model);
  add_compute(c, flags->model);
  add_kv_bytes(c, flags->model);
  c->add_option("-f,--file", flags->file, "text file, - for standard input")->required();
  c->add_option("--context", flags->context, "tokens per window")->check(within(3, 1u << 24))->capture_default_str();
  c->add_option("--chunks", flags->chunks, "score only the first N windows (default 0: all)");
  c->add_flag("--json", flags->json, "one JSON object");
  on(c, flags, cmd_perplexity, code);
}

void define_eval(CLI::App& app, int& code) {
  auto flags = std::make_shared<EvalFlags>();
  auto* c = app.add_subcommand("eval", "measure what other formats of the KV cost a model: answers, tool use, rules, divergence");
  add_model(c, flags->model);
  add_compute(c, flags->model);
  add_kv_bytes(c, flags->model);
  c->add_option("--candidates", flags->candidates, "formats to compare with that of --kv: int8,fp8,int8/f16 (K's and V's)")
      ->delimiter(',')
      ->required();
  c->add_option("--axes", flags->axes, "measure only these axes: needle,arithmetic,... (default: all)")->delimiter(',');
  c->add_option("--program", flags->programs, "one more axis, asked and judged by a program that the shell runs")
      ->type_name("NAME=COMMAND");
  c->add_option("--data", flags->data, "a folder: choices/*.jsonl, multiple choice, and text/*.txt, whose perplexity is measured")
      ->type_name("DIR");
  auto* foreign = c->add_option("--foreign", flags->foreign,
                                "a file of llama-perplexity --kl-divergence-base: its predictions of a text, beside those of the formats")
                      ->type_name("NAME=FILE");
  c->add_option("--foreign-base", flags->foreign_base, "a NAME of --foreign, with which the other files are compared, too")
      ->needs(foreign)
      ->type_name("NAME");
  c->add_option("-o,--output", flags->output, "the report goes to NAME.json and NAME.html")->capture_default_str()->type_name("NAME");
  c->add_option("--seed", flags->seed, "of the questions and texts")->capture_default_str();
  c->add_option("--times", flags->times, "so many times as many questions, for narrower intervals")
      ->check(within(1, 100))
      ->capture_default_str();
  auto* tokens = c->add_option("--tokens", flags->tokens, "texts have about so many tokens at most")
                     ->check(within(128, 1u << 20))
                     ->capture_default_str();
  c->add_option("--answer", flags->answer, "tokens of a long answer at most")->check(within(16, 65536))->capture_default_str();
  c->add_flag("--full", flags->full, "the same as --tokens 32768, or as many as the model takes")->excludes(tokens);
  c->add_flag("--resume", flags->resume, "go on with a run that was interrupted");
  c->add_option("--gate", flags->gate, "JSON file with bounds of figures; the exit code is 20 if one does not hold")->type_name("FILE");
  c->add_flag("--json", flags->json, "print the report as one JSON object");
  on(c, flags, cmd_eval, code);
}

void define_inspect(CLI::App& app, int& code) {
  auto flags = std::make_shared<InspectFlags>();
  auto* c = app.add_subcommand("inspect", "show the contents of a GGUF file, and the parts that kvrt cannot run");
  c->add_option("MODEL,-m,--model", flags->model, "GGUF file")->required();
  c->add_flag("--all", flags->all, "show every tensor, and whole arrays");
  c->add_flag("--json", flags->json, "one JSON object");
  on(c, flags, cmd_inspect, code);
}

void define_bench(CLI::App& app, int& code) {
  auto flags = std::make_shared<BenchFlags>();
  flags->model.no_weight_cache = true;  // as an application that links the library has it; --cache-dir is another thing to measure
  auto* c = app.add_subcommand(
      "bench", "measure prefill, decode, appends, batches, saving and loading; without a weight cache unless --cache-dir is given");
  add_model(c, flags->model);
  add_compute(c, flags->model);
  add_kv_bytes(c, flags->model);
  c->add_option("--step-ms", flags->model.step_ms, "milliseconds per step at most (default 0: 50, or 500 for a prompt that runs alone)");
  c->add_option("-f,--file", flags->file, "text file to take the tokens from, - for standard input (default: a made-up text)");
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
  list("--prompt", flags->prompt, 1, kTokensMax, "lengths of prompts to compute, in tokens");
  list("--depth", flags->depth, 0, kTokensMax, "lengths of context at which to measure decode, in tokens");
  list("--append", flags->append, 1, kTokensMax, "tokens to append and compute at each --depth but 0");
  list("--batch", flags->batch, 1, 1024, "numbers of sessions to decode together");
  list("--state", flags->state, 1, kTokensMax, "lengths of sessions to save and load, in tokens");
  c->add_option("--decode", flags->decode, "tokens to generate per decode run")->capture_default_str()->check(within(1, 4096));
  add_speculation(c, flags->speculation, false);
  add_codec(c, flags->codec, "compression of the saved session's KV (default zstd)");
  c->add_option("--runs", flags->runs, "runs per figure; the median is printed")->capture_default_str()->check(within(1, 1000));
  c->add_flag("--json", flags->json, "one JSON object");
  on(c, flags, cmd_bench, code);
}

void define_store(CLI::App& app, int& code) {
  auto* store = app.add_subcommand("store", "list, change, check and repair the sessions of a store");
  store->require_subcommand(1);
  const auto add = [&](const char* name, const char* text, int (*run)(const StoreFlags&), int names, const char* argument = nullptr) {
    auto flags = std::make_shared<StoreFlags>();
    auto* c = store->add_subcommand(name, text);
    c->add_option("DIR,--store", flags->directory,
                  names > 1 ? "directory of the store; may be left out before a single NAME" : "directory of the store")
        ->required();
    if (argument) {
      flags->names.resize(1);
      c->add_option("NAME", flags->names[0], "name of the session")->required();
      c->add_option(argument, flags->argument, run == cmd_store_mv ? "its new name" : "90 (seconds), 45m, 12h, 30d, or never")->required();
    } else if (names) {
      auto* option =
          c->add_option("NAME", flags->names, names > 1 ? "names of sessions" : "names of sessions; without one, the store itself");
      if (names > 1) option->required();
    }
    const bool lists = run == cmd_store_ls || run == cmd_store_graph;
    if (names || lists) {
      c->add_option_function<std::string>(
          "--domain",
          [flags](const std::string& domain) {
            flags->domain = domain;
            flags->all_domains = false;
          },
          lists ? "only the sessions of this domain" : "domain of the sessions");
    }
    if (run == cmd_store_graph) {
      c->add_option("-o,--output", flags->output, "where the picture goes: FILE.svg, FILE.html for a page, or -, standard output")
          ->capture_default_str();
    } else {
      c->add_flag("--json", flags->json, "one JSON object a line");
    }
    if (run == cmd_store_gc)
      c->add_flag("--old", flags->old, "also remove the files of migrations and repairs: catalog.db.old, damaged-<n>");
    if (run == cmd_store_pin) {
      c->add_option("--priority", flags->priority, "when space is short, sessions of a lower priority lose their KV first")
          ->capture_default_str()
          ->check(within(1, 255));
    }
    on(c, flags, run, code);
  };
  add("ls", "list the sessions", cmd_store_ls, 0);
  add("stat", "show the sizes of sessions, or of the whole store", cmd_store_stat, 1);
  add("show", "show the contents of sessions: messages, tokens, chunks of KV", cmd_store_show, 2);
  add("graph", "draw which sessions share which blocks of KV, as an SVG or HTML file", cmd_store_graph, 0);
  add("rm", "remove sessions", cmd_store_rm, 2);
  add("mv", "rename a session", cmd_store_mv, 2, "NEW");
  add("pin", "keep sessions from expiring, and their KV when space is short", cmd_store_pin, 2);
  add("unpin", "let pinned sessions expire again", cmd_store_unpin, 2);
  add("ttl", "let a session expire after a time, or never", cmd_store_ttl, 2, "TIME");
  add("gc", "remove expired sessions, and chunks and files that no session needs", cmd_store_gc, 0);
  add("verify", "read and check everything; exits 9 (CORRUPT) with a line per fault", cmd_store_verify, 0);
  add("repair", "make a damaged store sound again, while no process has it open; exits 9 (CORRUPT) if sessions are lost", cmd_store_repair,
      0);
}

void define_plan(CLI::App& app, int& code) {
  auto flags = std::make_shared<PlanFlags>();
  auto* c = app.add_subcommand(
      "plan", "show the memory that a loaded model and its sessions need, without loading it; loading needs more for a while");
  add_model(c, flags->model, false);
  c->add_option("--context", flags->context, "tokens per session (default 0: the model's context)");
  c->add_option("--sessions", flags->sessions, "number of sessions (default 0: one)");
  c->add_option("--shared", flags->shared, "leading tokens that all sessions have in common (default 0)");
  add_kv(c, flags->model);
  add_device(c, flags->model);
  c->add_option("--memory", flags->memory, "memory to fit into, 8G is 8 GiB (default 0: the free memory of the device)")
      ->type_name("SIZE")
      ->transform(size());
  c->add_option("--draft", flags->draft, "GGUF file of a draft model (kvrt run --draft), which needs memory for the same sessions");
  c->add_option("--layers", flags->layers, "layers, for a model without a file");
  c->add_option("--kv-heads", flags->kv_heads, "KV heads, for a model without a file");
  c->add_option("--head-dim", flags->head_dim, "dimensions of a head, for a model without a file");
  c->add_flag("--json", flags->json, "one JSON object");
  c->callback([c, flags, &code] {
    const bool geometry = flags->layers || flags->kv_heads || flags->head_dim;
    if (geometry && !is_named(c, "model")) flags->model.model.clear();  // the default model counts only where nothing is named
    if (geometry && !flags->draft.empty()) throw CLI::ValidationError("--draft", "it goes with -m FILE");
    if (!geometry && flags->model.model.empty()) throw CLI::RequiredError("-m FILE, or --layers, --kv-heads and --head-dim");
    code = cmd_plan(*flags);
  });
}

// help is defined only for its own --help: reversed_words() turns `help X` into `X --help`. share is for packagers and not listed.
void define_manual(CLI::App& app, int& code) {
  auto json = std::make_shared<bool>();
  auto* c = app.add_subcommand("version", "show the versions of kvrt, its ABI and its libraries, and the instruction set");
  c->add_flag("--json", *json, "one JSON object");
  c->callback([json, &code] { code = cmd_version(*json); });

  auto word = std::make_shared<std::string>();
  c = app.add_subcommand("completion", "print the completions for a shell");
  c->add_option("SHELL", *word, "bash, zsh or fish")->required()->check(one_of({"bash", "zsh", "fish"}));
  c->callback([&app, word, &code] {
    put("{}", completion(describe(app), *word));
    code = finish(KVRT_OK);
  });

  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  auto words = std::make_shared<std::vector<std::string>>();
  app.add_subcommand("help", "show the --help of the program or of a command")
      ->add_option("COMMAND", *words, "a command, such as run or store gc")
      ->check(one_of(names));

  c = app.add_subcommand("share", "write man pages and completions, laid out as below share/")->group("");
  c->add_option("DIR", *word, "where to")->required();
  c->callback([&app, word, &code] { code = write_share(describe(app), *word); });
}

void define_rest(CLI::App& app, int& code) {
  auto doctor = std::make_shared<DoctorFlags>();
  auto* c = app.add_subcommand("doctor", "check this machine and a store, and say how to mend each fault");
  c->add_option("DIR,--store", doctor->directory, "directory of a store, or of one to be made");
  add_cuda(c, doctor->model);
  add_prompt_gemm(c, doctor->model);
  add_cache(c, doctor->model);
  c->add_flag("--json", doctor->json, "one JSON object a line");
  on(c, doctor, cmd_doctor, code);

  auto demo = std::make_shared<DemoFlags>();
  c = app.add_subcommand("demo", "show a conversation that is killed in the middle of an answer and goes on in a new process");
  add_model(c, demo->model);
  add_compute(c, demo->model);
  add_kv_bytes(c, demo->model);
  c->add_option("--store", demo->store, "an empty directory, or a new one")->required();
  c->add_option("--stage", demo->stage, "")->group("");  // for the processes that it starts
  on(c, demo, cmd_demo, code);
}

// `helps`: the words ask for help alone.
int run(const std::vector<std::string>& words, bool helps) {
  int code = 0;
  CLI::App app("LLM inference whose conversations survive the process", "kvrt");
  app.set_help_flag("-h,--help", "show this help");
  app.set_version_flag("--version", "kvrt " + version_text(), "show the version");
  app.formatter_fn([](const CLI::App* of, const std::string&, CLI::AppFormatMode) { return help_text(describe(*of)); });
  app.require_subcommand(1);
  define_run(app, code);
  define_chat(app, code);
  define_text(app, code);
  define_template(app, code);
  define_logits(app, code);
  define_perplexity(app, code);
  define_eval(app, code);
  define_inspect(app, code);
  define_bench(app, code);
  define_plan(app, code);
  define_store(app, code);
  define_rest(app, code);
  define_manual(app, code);
  complete(app);
  std::string warning;
  const std::string broken = load_defaults(warning);
  app.parse_complete_callback([&] {
    if (!takes_defaults(app)) return;
    if (!broken.empty()) throw CLI::ConfigError(broken);
    if (!warning.empty()) say("kvrt: warning: {}\n", warning);
  });
  try {
    app.parse(std::vector<std::string>(words));
  } catch (const CLI::ParseError& error) {
    if (const auto again = with_store(app, error, words); again != words) return run(again, helps);
    return explain(app, error, broken, helps);
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGXFSZ, SIG_IGN);  // a write past the limit fails instead, and says so
  try {
    return run(reversed_words(argc, argv), argc > 1 && argv[1] == std::string("help"));
  } catch (const std::bad_alloc&) {
    return complain(KVRT_NO_MEMORY, "this program's own memory does not suffice");
  } catch (const std::exception& error) {
    return complain(KVRT_INTERNAL, error.what());
  }
}
