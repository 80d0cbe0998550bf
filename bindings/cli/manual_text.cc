// What the man pages say beside the options: what a command does, and examples of it.
#include <algorithm>
#include <iterator>

#include "bindings/cli/tables.h"

namespace cli {

namespace {

struct Page {
  const char* path;
  ManualText text;
};

const Page kPages[] = {
    {"kvrt",
     {{"kvrt runs language models (GGUF files) on this machine. What a model has read and said is a session. A session is saved in a "
       "store, "
       "a directory, with its KV: the keys and values that the model computed of its tokens. It goes on in another process, also after "
       "kill "
       "-9 or a power cut, and only what is new is computed."},
      {{"Chat, and go on with the same conversation another day", "kvrt chat -m model.gguf --store memory --session ann"},
       {"Answer one question", "kvrt run -m model.gguf --chat -p \"Why is the sea salty?\""},
       {"See what is saved", "kvrt store ls memory"},
       {"See whether this machine and a store are in order", "kvrt doctor memory"}}}},
    {"kvrt run",
     {{"Appends the prompt to a session, generates, prints the text, and saves the session under --session. Without --session it saves "
       "nothing. The next run with the same name goes on where this one ended. Without --temp the answer is greedy: the most likely token "
       "each time.",
       "Standard input is the prompt if it is a pipe or a file and the line has no -p, -f, --tokens, --session or --fork-from. A session "
       "goes "
       "on without a prompt, and takes standard input by -f -.",
       "The text goes to standard output: broken at words on a terminal, byte for byte elsewhere. What was reused and how long it took "
       "goes "
       "to standard error.",
       "Speculation (--lookup, --prediction, --draft) makes an answer faster and changes nothing of it: tokens that are likely to follow "
       "are proposed, one step checks all of them, and those that are right are taken. It helps where the weights' way from memory takes "
       "most of a step's time, and where many proposals are right; where it does not pay, little or nothing is proposed."},
      {{"Go on with a text", "kvrt run -m model.gguf -p \"The lamp is lit at dusk.\" -n 32"},
       {"Answer a question by the model's chat template, up to 200 tokens",
        "kvrt run -m model.gguf --chat -p \"Name three lighthouses.\" -n 200"},
       {"A pipe is the prompt", "git diff | kvrt run -m model.gguf --chat -n 200"},
       {"Read a long text once, and ask about it in forks of it",
        "kvrt run -m model.gguf --store memory --session book -f book.txt -n 0\n"
        "kvrt run -m model.gguf --store memory --fork-from book --session one -p \" Who is the keeper?\""},
       {"A file that the model edits: what stays is proposed, and computed several tokens at a time",
        "(echo 'Rename the function f to size:'; cat a.c) | kvrt run -m model.gguf --chat -n 2000 --prediction a.c"},
       {"With a small model that proposes tokens for a large one", "kvrt run -m large.gguf --draft small.gguf --chat -p \"Why?\" -n 200"},
       {"An answer that fits a JSON schema", "kvrt run -m model.gguf --chat -p \"A person, please.\" --json-schema person.json -n 200"}}}},
    {"kvrt chat",
     {{"A conversation in the terminal. With --store it is saved after each answer, and within one every 64 tokens; the next chat with the "
       "same "
       "--session goes on. The arrows bring back earlier lines; a paste of several lines is one message. Ctrl-C stops an answer, and "
       "Ctrl-D "
       "ends the chat.",
       "Without options for sampling it draws as the model's file suggests, else with --temp 0.7 --min-p 0.05.",
       "Lines that come through a pipe are questions and commands. The first that fails ends the chat, and the exit code is its status."},
      {{"A chat that is saved", "kvrt chat -m model.gguf --store memory --session ann"},
       {"With a system message and room for 8192 tokens", "kvrt chat -m model.gguf --system \"You are a keeper.\" --context 8192"},
       {"By a script", "printf 'Hello\\n/stats\\n' | kvrt chat -m model.gguf --temp 0"}}}},
    {"kvrt tokenize",
     {{"Prints the ids of a text's tokens, separated by commas."},
      {{"The tokens of a text", "kvrt tokenize -m model.gguf -p \"Hello there\""},
       {"As run takes them", "kvrt run -m model.gguf --tokens \"$(kvrt tokenize -m model.gguf -p Hello)\" -n 8"}}}},
    {"kvrt detokenize", {{"Prints the text of token ids."}, {{"Three tokens", "kvrt detokenize -m model.gguf --tokens 1,2,3"}}}},
    {"kvrt template",
     {{"Prints the prompt that the model's chat template makes of messages. Each message is an object with role and content, as in "
       "OpenAI's API."},
      {{"What a model is given", "kvrt template -m model.gguf --messages messages.json"},
       {"With tools, and without reasoning",
        "kvrt template -m model.gguf --messages messages.json --tools tools.json --var enable_thinking=false"}}}},
    {"kvrt logits",
     {{"Writes the logits after the last token, or with --all after each: a row of f32 in little-endian order, one number for each token "
       "of the "
       "vocabulary."},
      {{"The logits after three tokens", "kvrt logits -m model.gguf --tokens 1,2,3 -o logits.f32"}}}},
    {"kvrt perplexity",
     {{"Computes a text in pieces of --context tokens, and prints how well the model predicts the second half of each: the lower the "
       "better."},
      {{"Of a text file", "kvrt perplexity -m model.gguf -f text.txt"}}}},
    {"kvrt eval",
     {{"Says what another format of the KV costs a model. The same questions and texts, made of --seed, go to the model with the format of "
       "--kv (the base) and with each of --candidates. They ask for facts in long texts, sums, the tools to use, rules that hold for a "
       "whole "
       "conversation, and more: docs/EVAL.md has the list.",
       "The report has the share of right answers with its 95 % interval, the difference from the base by pairs, the share of answers that "
       "are the same letter by letter, the divergence from the base's predictions, and answers to read. Its part `result` is the same, bit "
       "for bit, with any CPU and any number of threads; its SHA-256 is printed.",
       "Ctrl-C ends a run, and the same command with --resume goes on. Until the end NAME.part has what was measured.",
       "--data measures your own data, too: DIR/choices/*.jsonl has multiple choice, DIR/text/*.txt has texts, whose perplexity is "
       "measured. "
       "docs/EVAL.md says what a line is.",
       "--foreign sets predictions of llama.cpp beside those of the formats, on one text: files of llama-perplexity --kl-divergence-base, "
       "made "
       "with any of its KV types.",
       "A candidate that breaks (its logits are NaN, or the model cannot have it) has no figures; the others go on. The report says what "
       "broke "
       "and where, and the exit code is that failure's.",
       "--gate sets bounds: {\"int8.divergence.mean\": {\"max\": 0.001}, \"int8.needle.difference\": {\"min\": -0.05}}. If one does not "
       "hold, the exit code is 20."},
      {{"KV in int8 against f16", "kvrt eval -m model.gguf --candidates int8"},
       {"K in int8 and V in f16, too; only two axes, with more questions",
        "kvrt eval -m model.gguf --candidates int8,int8/f16 --axes arithmetic,routing --times 5"},
       {"Multiple choice and texts of your own", "kvrt eval -m model.gguf --candidates int8 --axes choices,text --data DIR"},
       {"Beside two KV types of llama.cpp",
        "kvrt eval -m model.gguf --candidates int8 --foreign f16=f16.kld --foreign q8_0=q8.kld --foreign-base f16"}}}},
    {"kvrt inspect",
     {{"Shows what a GGUF file holds: the architecture, the metadata, the tensors and their types, and whether kvrt can run it. It reads "
       "only "
       "the header."},
      {{"A file", "kvrt inspect model.gguf"}, {"Every tensor, for a script", "kvrt inspect model.gguf --all --json"}}}},
    {"kvrt bench",
     {{"Measures this machine with a model: prompts, decoding at several depths, appended tokens, several sessions in one step, saving and "
       "loading. Each figure is the median of --runs runs."},
      {{"A short measurement", "kvrt bench -m model.gguf --prompt 512 --depth 0 --append none --batch none --state none"}}}},
    {"kvrt plan",
     {{"Says how much memory a model and its sessions take, from the file's header: the weights, the KV, and what a step needs. Nothing is "
       "loaded. With --memory it says how many sessions fit."},
      {{"One session of 8192 tokens", "kvrt plan -m model.gguf --context 8192"},
       {"Ten sessions that begin with the same 2000 tokens", "kvrt plan -m model.gguf --context 4096 --sessions 10 --shared 2000"},
       {"A model with a draft", "kvrt plan -m large.gguf --draft small.gguf --context 8192"},
       {"What fits into 8 GiB with KV of half the size", "kvrt plan -m model.gguf --kv int8 --memory 8G"}}}},
    {"kvrt store",
     {{"A store is a directory of saved sessions. Several processes may have it open. KV that several sessions have in common is there "
       "once. "
       "None of these commands needs the model."},
      {{"List", "kvrt store ls memory"},
       {"Remove a session", "kvrt store rm memory ann"},
       {"Check every byte", "kvrt store verify memory"}}}},
    {"kvrt store ls",
     {{"A line for each session: its tokens, the bytes of KV that only it has (OWN) and that others have too (SHARED), its revision, when "
       "it was "
       "saved, and when it expires. The last line has the sums."},
      {{"All sessions", "kvrt store ls memory"}, {"Their names, by jq", "kvrt store ls memory --json | jq -r .name"}}}},
    {"kvrt store stat",
     {{"Shows sessions by name, with their ids and times; without a name the store itself, and its size on the disk."},
      {{"The store", "kvrt store stat memory"}, {"A session", "kvrt store stat memory ann"}}}},
    {"kvrt store show",
     {{"Shows what a session holds: its messages and the tokens that each became, its options, and its chunks of KV. A chunk is "
       "\"missing\" if "
       "the store lacks it; a resume computes it again."},
      {{"A session", "kvrt store show memory ann"}}}},
    {"kvrt store graph",
     {{"Draws a row for each session and a box for each block of its KV. A block that several sessions have is drawn once, with their "
       "number."},
      {{"As a picture", "kvrt store graph memory -o memory.svg"}, {"As a page", "kvrt store graph memory -o memory.html"}}}},
    {"kvrt store rm",
     {{"Removes sessions and the KV that no other session needs. After gc no file holds the removed content."},
      {{"Two sessions, and their content", "kvrt store rm memory ann bob\nkvrt store gc memory"}}}},
    {"kvrt store mv", {{"Renames a session. It never replaces another."}, {{"Rename", "kvrt store mv memory ann ann-2026"}}}},
    {"kvrt store pin",
     {{"A pinned session does not expire, and keeps its KV longest when space is short."},
      {{"Keep a session", "kvrt store pin memory ann"}, {"Keep it longer than others", "kvrt store pin memory ann --priority 10"}}}},
    {"kvrt store unpin",
     {{"Takes the pins of sessions back: they may expire, and give up their KV when space is short."},
      {{"Let it expire again", "kvrt store unpin memory ann"}}}},
    {"kvrt store ttl",
     {{"Sets the time after which a session is not found any more. gc removes it then. A number without a unit is seconds."},
      {{"Thirty days from now", "kvrt store ttl memory ann 30d"}, {"Never", "kvrt store ttl memory ann never"}}}},
    {"kvrt store gc",
     {{"Removes expired sessions, and the files and KV that no session needs. Removed content is in no file then. With --old it also "
       "removes "
       "what migrations and repairs left: catalog.db.old and damaged-<n>."},
      {{"Collect", "kvrt store gc memory"}}}},
    {"kvrt store verify",
     {{"Reads and checks every byte. Exit code 0: all is well; 9 (CORRUPT): a line for each fault, or it does not open; another: what "
       "kept it from being checked."},
      {{"Check, and repair if there are faults", "kvrt store verify memory || kvrt store repair memory"}}}},
    {"kvrt store repair",
     {{"Makes a sound store of one that has faults or does not open any more, and says what it could not save. No process may have it "
       "open. The damaged catalog stays in DIR/damaged-1. Exit code 0: nothing is lost but KV, which is computed again; 9 (CORRUPT): "
       "sessions are lost, or KV belongs to no session any more."},
      {{"Repair", "kvrt store repair memory"}}}},
    {"kvrt doctor",
     {{"Prints a line for each check: ok, warn or fail. A line that is not ok says how to mend it. The exit code is the class of the first "
       "that "
       "failed, else 0. With DIR it also looks at a store, or at the place for one; nothing is left there."},
      {{"This machine", "kvrt doctor"}, {"And a store", "kvrt doctor memory"}}}},
    {"kvrt demo",
     {{"A process answers twice and is killed by SIGKILL in the middle of the second answer. A new process goes on. Its tokens and logits "
       "are "
       "compared with those of a process that was never killed, and its time with that of computing all again."},
      {{"Show it", "kvrt demo -m model.gguf --store /tmp/kvrt-demo"}}}},
    {"kvrt version",
     {{"Shows the versions of kvrt, of its ABI and of its libraries, and the instruction set: what a report of a fault needs."},
      {{"For a report", "kvrt version"}}}},
    {"kvrt completion",
     {{"Prints a script that completes commands, options, their values, files, and the sessions of a store."},
      {{"In this bash", ". <(kvrt completion bash)"},
       {"For fish, for good", "kvrt completion fish > ~/.config/fish/completions/kvrt.fish"}}}},
    {"kvrt help", {{"Shows the --help of the program or of a command."}, {{"Of a command", "kvrt help store gc"}}}},
};

}  // namespace

const ManualText& manual_text(const std::string& path) {
  static const ManualText none;
  const auto* found = std::find_if(std::begin(kPages), std::end(kPages), [&](const Page& page) { return page.path == path; });
  return found == std::end(kPages) ? none : found->text;
}

}  // namespace cli
