/** @file
 * kvrt: LLM inference in your process, with conversations that survive it.
 *
 * A session keeps the KV of a conversation in blocks of memory. A save writes these blocks to a store on disk,
 * deduplicated and compressed. An application can save a session, be killed, start again, and go on with the same
 * bits: the prompt is not computed again.
 *
 *     kvrt_runtime* rt = NULL;  kvrt_model* model = NULL;  kvrt_store* store = NULL;  kvrt_session* chat = NULL;
 *     kvrt_runtime_open(NULL, &rt, NULL);
 *     kvrt_model_open(rt, KVRT_STR("model.gguf"), NULL, NULL, NULL, &model, NULL);
 *     kvrt_store_open(rt, KVRT_STR("memory"), NULL, &store, NULL);
 *     if (kvrt_session_resume(model, store, KVRT_STR("ann"), NULL, NULL, NULL, NULL, &chat, NULL) == KVRT_NOT_FOUND) {
 *       kvrt_session_options o;  KVRT_INIT(&o);  o.store = store;
 *       kvrt_session_open(model, &o, &chat, NULL);
 *     }
 *     kvrt_session_append_message(chat, json, strlen(json), NULL, NULL);
 *     kvrt_session_generate(chat, NULL, print_token, NULL, NULL, NULL);
 *     kvrt_session_suspend(chat, KVRT_STR("ann"), NULL, NULL, NULL);
 *
 * A program looks at each status, as samples/resume.c does.
 *
 * # Contents
 *
 *     Words              the terms of this header
 *     Conventions        what holds for every call: names, lifetime, statuses, errors, structs, memory, callbacks, threads, fork
 *     Session states     which call is allowed when
 *     Who computes       whose thread runs the model
 *     How long calls wait  which call waits for what
 *     Basics             versions, KVRT_INIT, KVRT_STR, the five handles
 *     Statuses           KVRT_OK ..., KVRT_DETAIL_*, kvrt_error, kvrt_last_error, layouts for bindings
 *     Events             kvrt_event, kvrt_event_fn, KVRT_EVENT_*, KVRT_REASON_*, kvrt_report, kvrt_store_entry
 *     Runtime            the device, its threads and the log
 *     Model              open, info, tokens and text, templates; steps and metrics; plans of memory, weight cache, a file's contents
 *     Store              open, look, remove, rename, pin, expire; collect, remove_old, verify, repair
 *     Cancel             end generations from outside
 *     Session            open and close; say something; generate; fork, cut and read; save and resume
 *
 * # Words
 *
 * - *token*: what a model reads and writes one at a time. A *control token* is not text: it stands, for example, for the
 *   beginning of a turn.
 * - *KV*: the attention's keys and values, which a model computes for each token. Tokens are the truth, KV is a cache:
 *   lost KV is computed again from the tokens.
 * - *block*: 32 tokens of a session (see block_tokens), and their KV in memory.
 * - *window*: a layer with a window sees only the last W tokens (Gemma 3: 512 in five layers of six).
 * - *group*: the layers with the same window and the same KV heads, or all recurrent layers. Groups are counted from 0.
 * - *unit*: a piece of the model's *pool*, the memory for KV. All units have one size. A block takes one or more of them
 *   in each group: in Gemma 3 270M one of 3 layers in the group without a window, and five in the other.
 * - *chunk*: the KV of a block in one group, on disk. Its *number* is 1 for the first group and so on, or 0 for a chunk of
 *   all layers, which models of one group have.
 * - *boundary*: a position from which a session can go on later. For layers with windows a session keeps the last two
 *   windows and the tokens of one step. It also keeps one window at each boundary.
 * - *recurrent layer* (a short convolution, Mamba-2, a delta rule): it keeps no KV. It keeps one *recurrent state* of
 *   fixed size, always in f32. That counts as KV; it is kept at the session's end and at boundaries.
 * - *state*: a session's, see "Session states".
 * - *foreign KV*: saved KV that another arithmetic computed (see numerics), a CPU's on a GPU for example.
 * - *numerics*: a device's arithmetic, by name and version. KV is used only under the numerics that computed it.
 * - *generation*: it runs from begin to DONE and gives tokens. A *prefill* is a generation that computes a prompt and
 *   gives no token.
 * - *turn*: what one side of a conversation says at a time.
 * - *step*: one pass through the model, for all sessions that have something to compute. A *row* is one token of a step;
 *   a session *decodes* while its only row is that of its newest token.
 * - *segments*: a store's files of chunks. Its *catalog* is an SQLite database of all the rest, and the catalog's *log* is
 *   SQLite's write-ahead log.
 * - *domain*: a sharing scope. Sessions of two domains share no KV.
 * - *host*: the program that calls.
 *
 * # Conventions
 *
 * 1. Names. Functions begin with `kvrt_<noun>_` (those of Basics and Statuses with `kvrt_`), constants with `KVRT_`.
 *    There are five nouns. A runtime is a device with its threads and the log. It opens models (weights, a pool for KV,
 *    a scheduler) and stores (directories of saved sessions). A session is one conversation with a model. A
 *    cancel ends generations. Children keep their parents alive, so handles may be closed in any order.
 *
 * 2. Lifetime. Runtimes, models, stores and cancels are opened, retained and released. The caller of open owns the
 *    handle in `*out` and releases it; retain adds an owner, release takes one away, and after the last release the
 *    handle must not be used. A session has one owner: it comes from open, resume or fork, and kvrt_session_close
 *    ends it. Release and close never fail; they ignore NULL and a handle of another kind. A call keeps the handles
 *    that it works on until it returns: they may be released meanwhile, in its callback or by another thread (for a
 *    session see kvrt_session_close).
 *
 * 3. Statuses. A call that can fail returns a kvrt_status; KVRT_OK is 0. The numbers never change. "Statuses" at a call
 *    names what it may return, and special causes of the five that any call may return; "Statuses: none of its own" means
 *    only these five:
 *    - INVALID: a wrong argument, a NULL that its comment does not allow, a handle of another kind.
 *    - UNSUPPORTED: an unknown option is set, or a handle is from before a fork.
 *    - LIMIT: a text argument is longer than 64 MiB; a JSON argument is longer than 16 MiB, or nested deeper than 64; a
 *      grammar, a schema or a template's source is longer than 1 MiB.
 *    - NO_MEMORY.
 *    - INTERNAL.
 *
 * 4. Errors. A call that can fail takes a kvrt_error last. It may be NULL. A failed call fills it: status, detail,
 *    the system's error number, and a message that says what, where, expected and found. The struct belongs to the
 *    caller and not to a thread: it also serves hosts whose tasks move between threads. kvrt_last_error copies the
 *    calling thread's last error, for callers that pass NULL. A call that succeeds changes neither of the two, and
 *    retain, release and close change neither. A failed call leaves its outputs as they were, except `needed` (6) and
 *    the report of a generation or prefill that was CANCELLED. Error messages and the log never quote the model's input:
 *    messages, tools, documents, variables, texts. They may quote the host's own words: names, a grammar or schema, and
 *    the literals of a template. Text joined to such a literal is shown as "...".
 *
 * 5. Structs. The first field of a struct is struct_size. Set it to sizeof the struct, in options and in outputs
 *    (KVRT_INIT does). A size below 4 or above 65536 is INVALID. Options: NULL means all defaults, and 0 means the
 *    default in every field. The size must be a multiple of the struct's alignment (every sizeof is), else INVALID. A
 *    flag is 0 or 1. Any other value of a flag, of an enum or of a reserved field is INVALID. A shorter struct (of an
 *    older header) counts as zero in the fields that it lacks. A longer struct must be zero in the tail that this library
 *    does not know, else the call is UNSUPPORTED (STRUCT_TAIL). Outputs: the library writes at most struct_size bytes. In
 *    a struct of the library's own (a callback's event, its report and entry) struct_size is the library's. New fields
 *    are only ever appended.
 *
 * 6. Memory and strings. The library never returns memory to free. A call with output of variable length takes a
 *    buffer, its capacity and `needed`, which must not be NULL. It sets `*needed` on success and on TOO_SMALL; on
 *    TOO_SMALL it writes nothing else. A NULL buffer with capacity 0 asks for the size: the call is TOO_SMALL, or OK if
 *    there is nothing to write. Capacity and needed count the bytes of a text, and the elements of an array of tokens.
 *    Text that is written has no NUL at its end. Inputs are copied. A string is a pointer and a length in bytes, UTF-8;
 *    it needs no NUL, and NULL with length 0 is an empty one. KVRT_STR writes both for a literal. Names and domains have
 *    at most 255 bytes and no NUL. A path is 1 to 4095 bytes without NUL, as the system has them.
 *
 * 7. Callbacks. A callback comes with a `user` pointer, which kvrt passes on and never reads. kvrt_event_fn returns 0
 *    to go on; anything else stops the call with CANCELLED, and the callback gets no further event. At DONE, and at gc's
 *    last PROGRESS, nothing is left to stop: the call is OK. If the call had failed before the stop, it returns that
 *    failure. The callback may be NULL unless its call says otherwise. It runs on the thread inside the call, with no
 *    lock held. It may call anything, except on the same session: there cancel, accept, checkpoint, close and the reads
 *    (8) work, other calls are BUSY. A callback returns: no exception, longjmp or end of the thread may pass through
 *    kvrt. Callbacks that are kept (log, wake) must not call kvrt at all, not even from a finalizer that a garbage
 *    collector runs inside them. Their user pointer has a `user_free`. It is called once, on any thread, after the last
 *    call of the callback, also if the callback is NULL. It is not called if the call that was given it fails. It must
 *    not call kvrt either. If they run on a thread of kvrt's own, that thread blocks all signals: a runtime that stops
 *    threads by signals (Mono) unblocks its own there.
 *
 * 8. Threads. Any number of threads may use a runtime, a model, a store or a cancel at once, and any const handle; any
 *    thread may make a call without a handle. A session takes one call at a time; a second one is BUSY (CONCURRENT, or
 *    REENTRANT in a callback). Beside that call any thread may call cancel, accept, checkpoint, and the reads: info,
 *    tokens, text, message. If something else holds for a call, "Threads" says so there. A pthread_cancel of a thread
 *    that is in a call, or in its callback, acts when the call has returned.
 *
 * 9. fork(2). In the child, a call with a handle of the parent is UNSUPPORTED (FORKED) and touches nothing. The child
 *    may open handles of its own, except for a store that was open at the fork (UNSUPPORTED). The child has copies of
 *    the descriptors of the parent's lock and data files. Its first call closes them (not SQLite's, which lock nothing
 *    in a child). A child that calls nothing keeps them until exec or exit, and with them the locks, even when the
 *    parent was killed.
 *
 * 10. A good guest. kvrt never prints, exits, aborts or handles signals. It burns no CPU when idle and leaves the
 *     floating-point mode as it found it. It reads and writes numbers the same under every locale. Its only global
 *     data are each thread's last error and a note of its open descriptors (9). It opens no file as descriptor 0, 1 or
 *     2; if these are closed, SQLite leaves /dev/null in them. A call works on a thread with 96 KiB of stack; a
 *     callback's own needs come on top. When the system gives no memory, a call returns NO_MEMORY and leaves its handle
 *     as it was, except that a generation may end at its last token (see kvrt_session_next).
 *
 * 11. Exactness. On the CPU the logits of a position depend on the model, the KV format and the tokens before it, and
 *     on nothing else: not on batching, prompt pieces, block size, threads, instruction set, prefix hits, forks, or
 *     suspend and resume. On CUDA the same holds with KVRT_DETERMINISM_STRICT, and by default for suspend and resume:
 *     restored KV has the bits that it was saved with. The one exception is an `inexact` session
 *     (KVRT_FOREIGN_KV_ACCEPT).
 *
 * 12. Versions. kvrt follows SemVer. The library's soname is libkvrt.so.0. From 0.2.0 on it only grows: a program runs
 *     with every later 0.x. Before 0.2.0 a function that changes gets another symbol version. A program that needs a
 *     function which the library lacks is refused when it starts. Enums may grow, in any version: ignore an event of
 *     unknown type, and treat an unknown status as a failure, an unknown reason as the end of a generation, an unknown
 *     detail as KVRT_DETAIL_NONE. The store has a format number of its own; a store of a later format is refused and
 *     left as it is.
 *
 * # Session states
 *
 *                                        IDLE      GENERATING    SUSPENDED     FAILED
 *     append*, set_messages              ok        BUSY          ok            INVALID
 *     truncate, erase, mark              ok        BUSY          ok            INVALID
 *     prefill, begin, generate           ok        BUSY          ok (warms)    INVALID
 *     accept                             INVALID   ok if asked   INVALID       INVALID
 *     next                               IDLE      event         IDLE          IDLE
 *     fork                               ok        BUSY          ok            INVALID
 *     checkpoint                         ok        ok            ok            INVALID
 *     suspend                            ok        BUSY          ok            INVALID
 *     tokens, text, message, info        ok        ok            ok            ok
 *     cancel                             no-op     DONE          no-op         no-op
 *     close                              ok        cancels       ok            ok
 *
 * A session is GENERATING from begin (or inside prefill and generate) until next has given DONE or a failure that ends
 * the generation (see kvrt_session_next). Then it is IDLE: it keeps the tokens that it has and can go on, also after
 * NO_MEMORY, DEVICE, LIMIT and INVALID. One failure makes a session FAILED: a token was to be chosen from logits that
 * are NaN or infinite (DEVICE, detail NUMERIC). Before that, KV that was reused is computed again, once a generation. A
 * FAILED session can be read and closed, and nothing else. With all_or_nothing no session becomes FAILED: after any
 * failure or cancel it is IDLE, as it was before begin. kvrt_session_info has the error.
 *
 * A SUSPENDED session has given back its units. Calls that change, fork or save it leave it SUSPENDED. prefill, begin
 * and generate end that: the first step of the generation loads the KV again ("warms" the session).
 *
 * A saved session may be longer than the pool of a later opening holds. It resumes as SUSPENDED, and takes no unit from
 * others. Its KV stays in the store, also when it is saved again by a model with the same KV format and block size. Calls
 * that make it longer, and prefill, begin and generate, are LIMIT until truncate, erase or set_messages has made it short
 * enough.
 *
 * # Who computes
 *
 * No thread of kvrt's runs the model by itself. The thread that asks runs the step: one that calls next, generate or
 * prefill of any session of the model, or kvrt_model_step. A step serves all sessions of the model that generate,
 * answers and pieces of prompts together. A host that must not block calls begin, kvrt_model_step, and next with
 * timeout 0; `wake` tells it when there is an event to take. A session whose events nobody reads pauses at 64 of them,
 * and its units can be lent to other sessions.
 *
 * # How long calls wait
 *
 * No call waits for another session to end. A call that is not listed here waits for a moment at most.
 *
 *     runtime_open                  the kernels' check of themselves, milliseconds; a CUDA driver takes longer to start
 *     generate, prefill             until DONE; cancel ends them within a step
 *     next                          timeout_ms, and then the end of a step that it computes; with timeout 0 not at all
 *     model_step                    ms, or one step
 *     begin                         as apply_template; compiling a grammar that is not among the model's last 16
 *     apply_template                rendering the template, about 100 ms at most
 *     append_message, set_messages  as apply_template, once for each new message
 *     erase                         as apply_template
 *     checkpoint, suspend           one step of this session, other saves of it, and then the store, as every write to it
 *     close                         one step of a call that it cancels, a checkpoint of another thread, and with autosave a save;
 *                                   if it is the last session of a released store or model: also their release
 *     resume                        reading its chunks, as long as that takes; its callback can stop it
 *     model_open                    reading the file, as long as that takes; its callback can stop it
 *     model_plan, model_inspect     reading the file's header
 *     a write to a store            the store's other writers, at most 5 s, then BUSY; then the disk, as the durability asks
 *     store_open                    the same; after a crash also a look through the directory and the catalog
 *     gc, verify, repair            as long as they take; their callbacks can stop them
 *     other calls to a store        reading the catalog
 *     release                       the last release of a store folds the catalog's log in: up to 0.1 s for writers, and the disk;
 *                                   the last of a runtime that no model, store or session keeps ends its threads
 *
 * If one of begin, append_message, set_messages rewrites tokens of earlier messages, it renders the template once more
 * for each message from the first of those on.
 *
 * The first session of a model that uses a store (session_open, resume) reads the whole model file once, for the
 * model's identity; the store keeps the result. A step takes step_ms_max by measured speed, and one token at least.
 */
#ifndef KVRT_H
#define KVRT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** @defgroup kvrt_basics Basics
 * Versions, helper macros and handles.
 * @{ */

#define KVRT_VERSION_MAJOR 0 /**< This header's version: see convention 12. */
#define KVRT_VERSION_MINOR 1 /**< Its second number. */
#define KVRT_VERSION_PATCH 0 /**< Its third number. */
#define KVRT_ABI_VERSION 0   /**< Changes when programs must be built anew, as the soname does. */

/** Says that the library exports a function. */
#if defined(__GNUC__) || defined(__clang__)
#define KVRT_API __attribute__((visibility("default")))
#else
#define KVRT_API
#endif

/** Zeroes the struct that `p` points to and sets its struct_size: `kvrt_model_options o; KVRT_INIT(&o);`. In C99 an
 * initializer does the same: `kvrt_model_options o = {.struct_size = sizeof o};`. */
#define KVRT_INIT(p) ((void)memset((p), 0, sizeof *(p)), (void)((p)->struct_size = (uint32_t)sizeof *(p)))

/** A string literal as two arguments, pointer and length: `kvrt_session_suspend(chat, KVRT_STR("ann"), NULL, NULL,
 * NULL)`. Only a literal compiles. */
#define KVRT_STR(literal) ("" literal), (sizeof("" literal) - 1)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvrt_runtime kvrt_runtime; /**< A device with its threads and the log. Retained and released. */
typedef struct kvrt_model kvrt_model;     /**< Weights, a pool for KV, a scheduler. Retained and released. */
typedef struct kvrt_store kvrt_store;     /**< A directory of saved sessions. Retained and released. */
typedef struct kvrt_session kvrt_session; /**< One conversation with a model. It has one owner, who closes it. */
typedef struct kvrt_cancel kvrt_cancel;   /**< Ends generations from outside. Retained and released. */

/** The library that runs, which may be newer than this header: major << 16 | minor << 8 | patch. */
KVRT_API uint32_t kvrt_version(void);

/** KVRT_ABI_VERSION of the library that runs. A binding compares it with its own when it loads. */
KVRT_API uint32_t kvrt_abi_version(void);

/** @} */

/** @defgroup kvrt_statuses Statuses
 * The results of calls, and the descriptions of failures.
 * @{ */

/** The result of a call: one of KVRT_OK to KVRT_INTERNAL. A number that you do not know is a failure. */
typedef int32_t kvrt_status;

/** The status classes, each with the thing to do next. */
enum {
  KVRT_OK = 0,        /**< It is done. */
  KVRT_INVALID = 1,   /**< The caller's mistake: correct the call. */
  KVRT_NOT_FOUND = 2, /**< No such file, session or message: create it or name another. */
  /** The name is taken, or another handle saved it since: resume it, take another name, or overwrite. */
  KVRT_CONFLICT = 3,
  KVRT_BUSY = 4,          /**< In use by another call, a generation or another process: try again when that is over. */
  KVRT_CANCELLED = 5,     /**< Stopped by kvrt_session_cancel, kvrt_cancel_fire or a callback. */
  KVRT_NO_MEMORY = 6,     /**< The system gave no memory: release something, or lower kv_bytes_max. */
  KVRT_TOO_SMALL = 7,     /**< The buffer is smaller than `*needed`: call again with a larger one. */
  KVRT_LIMIT = 8,         /**< Past a limit. The message names it, and the option that raises it if there is one. */
  KVRT_CORRUPT = 9,       /**< A file is damaged: get it again; for a store see kvrt_store_repair. */
  KVRT_INCOMPATIBLE = 10, /**< Sound, but of another model, program or version: use the one that it belongs to. */
  /** The system failed to read or write. os_code is errno (EMFILE: raise RLIMIT_NOFILE) or SQLite's extended code. */
  KVRT_IO = 11,
  /** The disk, a quota, RLIMIT_FSIZE or disk_bytes_max is full: free space and call again. No tokens were lost; other
   * saved sessions may have lost KV. */
  KVRT_NO_SPACE = 12,
  KVRT_DEVICE = 13,      /**< The compute device failed, or its logits are not numbers (detail NUMERIC). */
  KVRT_UNSUPPORTED = 14, /**< This build or version cannot do it. The message names the thing. */
  KVRT_INTERNAL = 15     /**< A defect of kvrt: please report the message. */
};

/** Finer reasons, in kvrt_error.detail. Treat one that you do not know as KVRT_DETAIL_NONE. */
enum {
  KVRT_DETAIL_NONE = 0,            /**< The status says it all. */
  KVRT_DETAIL_FORMAT = 1,          /**< Bytes that break the format. */
  KVRT_DETAIL_CATALOG_CORRUPT = 2, /**< The store's catalog is damaged, or another store's: see kvrt_store_repair. */
  KVRT_DETAIL_CATALOG_MISSING = 3, /**< A store's directory without its catalog: see kvrt_store_repair. */
  KVRT_DETAIL_STORE_TOO_NEW = 4,   /**< A later kvrt wrote the store. It is left as it is. */
  KVRT_DETAIL_OTHER_PROGRAM = 5,   /**< The directory or database belongs to another program. */
  KVRT_DETAIL_READ_ONLY = 6,       /**< The store, its directory or its file system cannot be written. */
  KVRT_DETAIL_PERMISSION = 7,      /**< The system refused access. */
  /** The directory is another user's, or others can write it; or a file in it is theirs, a link, or not a regular file. */
  KVRT_DETAIL_UNSAFE_DIRECTORY = 8,
  KVRT_DETAIL_STORE_LOCKED = 9,    /**< Another process writes the store, or repairs it. */
  KVRT_DETAIL_REVISION = 10,       /**< The name was saved since this handle last saw it. */
  KVRT_DETAIL_NAME_TAKEN = 11,     /**< Another session has the name. */
  KVRT_DETAIL_MODEL_MISMATCH = 12, /**< The session was made with another model. */
  KVRT_DETAIL_FORKED = 13,         /**< The handle was opened before a fork(2). */
  KVRT_DETAIL_REENTRANT = 14,      /**< A callback called into its own session. */
  KVRT_DETAIL_CONCURRENT = 15,     /**< Another thread is inside a call on this session. */
  KVRT_DETAIL_TEMPLATE_ERROR = 16, /**< The chat template is malformed, or refuses the messages. */
  KVRT_DETAIL_TEMPLATE_LIMIT = 17, /**< The chat template takes too many steps, too much memory, depth or output. */
  KVRT_DETAIL_STATE = 18,          /**< The call does not fit the session's state. */
  KVRT_DETAIL_NUMERIC = 19,        /**< Logits are NaN or infinite. */
  KVRT_DETAIL_STRUCT_TAIL = 20,    /**< An option that this library does not know is set. */
  KVRT_DETAIL_GRAMMAR_ERROR = 21,  /**< The grammar or schema is malformed, or nothing fits it. */
  KVRT_DETAIL_GRAMMAR_LIMIT = 22   /**< The grammar or schema exceeds a limit. */
};

/** The description of a failure. A call whose `err` has a wrong struct_size is INVALID and does nothing. */
typedef struct kvrt_error {
  uint32_t struct_size; /**< sizeof this struct. */
  kvrt_status status;   /**< As returned. */
  int32_t detail;       /**< KVRT_DETAIL_... */
  int32_t os_code;      /**< errno, or SQLite's extended code; 0: none. */
  char message[1008];   /**< UTF-8, NUL-terminated. If it is longer, or struct_size ends before, it is cut at a whole character. */
} kvrt_error;

/** The name of a status: "OK", "INVALID", ...; "UNKNOWN" for any other number. The text is static and never NULL. */
KVRT_API const char* kvrt_status_name(kvrt_status status);

/** Copies the last error of the calling thread, whether its call was given an `err` or not. Its status is KVRT_OK when
 * no call of the thread has failed. The thread is the system's: if tasks move between threads (Go, async
 * runtimes), pass an `err` instead.
 * - Statuses: INVALID: `out` is NULL or has no struct_size. */
KVRT_API kvrt_status kvrt_last_error(kvrt_error* out);

/** sizeof a struct of this header, as the library has it, by its name, NUL-terminated: "kvrt_event". 0: the library has
 * no such struct. A binding that lays out structs by itself compares when it loads. */
KVRT_API uint32_t kvrt_struct_size(const char* name);

/** offsetof a field of such a struct: "kvrt_event", "text". UINT32_MAX: there is no such field. kvrt.abi.json
 * describes all of this header, for generators of bindings; `pkg-config --variable=abi kvrt` prints its path. */
KVRT_API uint32_t kvrt_struct_offset(const char* name, const char* field);

/** @} */

/** @defgroup kvrt_events Events
 * Events go to callbacks and come from kvrt_session_next. Reports tell of prefills and generations, entries of saved
 * sessions.
 * @{ */

/** kvrt_event.type: which fields of the event are filled. The others are 0 or NULL. Ignore a type that you do not know.
 *
 * CONTENT, REASONING and TOOL_CALL come only if the option `reply` is set: after the TOKEN that completes them, or
 * before DONE. TOKEN and DONE still have the whole text: show the one kind or the other. */
enum {
  KVRT_EVENT_NONE = 0,  /**< next: nothing came before the timeout; the session generates on. */
  KVRT_EVENT_TOKEN = 1, /**< A new token, also an end or stop token: token, position, text, logprob, and top with top_logprobs. */
  /** Progress: done of total, in tokens (prefill), bytes (model_open, verify, repair), chunks (resume), or expired
   * sessions and one more for the files (gc). */
  KVRT_EVENT_PROGRESS = 2,
  KVRT_EVENT_LOGITS = 3, /**< logits[logits_count] of `position`: they predict the token at position + 1. */
  /** The end: reason, report, and text: what was held back because a stop string might have begun with it. */
  KVRT_EVENT_DONE = 4,
  KVRT_EVENT_ENTRY = 5,     /**< store_list: entry. */
  KVRT_EVENT_FAULT = 6,     /**< store_verify and store_repair: text says where and what. */
  KVRT_EVENT_IDLE = 7,      /**< next: the session does not generate; no event will come. */
  KVRT_EVENT_CONTENT = 8,   /**< text: more of the answer itself. */
  KVRT_EVENT_REASONING = 9, /**< text: more of what the model thinks before its answer. */
  /** text: one whole tool call as JSON: `{"name": string, "arguments": object}`, and `"id"` if the model gave
   * one. */
  KVRT_EVENT_TOOL_CALL = 10
};

/** Why a generation ended. */
enum {
  KVRT_REASON_NONE = 0,       /**< It has not ended. */
  KVRT_REASON_EOS = 1,        /**< The model ended its turn. The end token is in the session. */
  KVRT_REASON_STOP = 2,       /**< A stop string or a stop token came. */
  KVRT_REASON_MAX_TOKENS = 3, /**< max_tokens were generated. */
  /** The session has as many tokens as the model's context, or as the whole pool holds: truncate or erase, or start
   * another session. (A pool that others fill is LIMIT, from next.) */
  KVRT_REASON_CONTEXT_FULL = 4,
  KVRT_REASON_CANCELLED = 5, /**< kvrt_session_cancel, kvrt_cancel_fire or the callback ended it. */
  KVRT_REASON_PREFILLED = 6, /**< A prefill is over. */
  KVRT_REASON_FAILED = 7     /**< In no event and no report: next returns the failure as its status, and kvrt_session_info has it. */
};

/** Why the prompt's KV was reused no further than reuse_stopped_at. */
enum {
  KVRT_REUSE_ALL = 0,             /**< All of it was reused. */
  KVRT_REUSE_NEW_TOKENS = 1,      /**< The tokens from here on were never computed after the tokens before them. */
  KVRT_REUSE_DIFFERENT_TOKEN = 2, /**< A block in memory begins the same and has another token here. */
  KVRT_REUSE_NOT_STORED = 3,      /**< The store knows the tokens and never had their KV. */
  /** This session had computed them; the pool needed the units. From resume, at position 0: it is longer than the pool
   * holds (see "Session states"). */
  KVRT_REUSE_EVICTED = 4,
  /** The chunk on disk was damaged, missing or could not be read: the log says which. At position 0 with `recomputed`:
   * KV that was reused made logits that are not finite, so all was computed again. */
  KVRT_REUSE_DAMAGED = 5,
  KVRT_REUSE_OTHER_NUMERICS = 6, /**< The saved KV is of another format, numerics or block size. */
  /** The tokens from here on had KV, but the window or recurrent state before them is gone. Computing starts at this position, the
   * last boundary: see kvrt_session_mark. */
  KVRT_REUSE_WINDOW = 7
};

/** The usage of one prefill or generation. prompt_tokens == reused_memory + reused_disk + prefilled, exactly. Times
 * are in milliseconds. */
typedef struct kvrt_report {
  uint32_t struct_size; /**< sizeof this struct. */
  uint32_t reason;      /**< KVRT_REASON_... */
  /** Tokens in the session when it began; 0 when the context was full. One less for a prefill without logits on a model
   * with recurrent layers, which leaves the last token to the next generation. */
  uint64_t prompt_tokens;
  uint64_t reused_memory; /**< Prompt tokens whose KV was in this session, or shared from the pool. */
  uint64_t reused_disk;   /**< Prompt tokens whose KV came from the store, by this generation or by a resume before it. */
  /** Prompt tokens that were not reused, but computed (after a cancel: or left to compute). At least 1 if logits are
   * wanted: the last token then always runs. */
  uint64_t prefilled;
  uint64_t generated;          /**< Tokens that the model gave, the end token included. */
  uint32_t reuse_stopped;      /**< KVRT_REUSE_... */
  uint32_t stop_string_tokens; /**< The session's last tokens that hold the stop string; 0: none. Truncate to the length less these. */
  /** The position that reuse_stopped is about; prompt_tokens when all was reused. Computing began there, or, with
   * DIFFERENT_TOKEN, at the last end of a block before. KV after it may have been reused too. */
  uint64_t reuse_stopped_at;
  uint64_t seed;                 /**< The seed in use, also when it was drawn. */
  double queue_ms;               /**< From begin to the first step with a row of this session. */
  double ttft_ms;                /**< From begin to the first token; 0: there was none. */
  double prefill_ms;             /**< From the first step to the first token, or to the end if there was none. */
  double decode_ms;              /**< From the first token to the last. */
  double tpot_ms;                /**< decode_ms for each token after the first. */
  double prefill_tokens_per_s;   /**< prefilled in prefill_ms. */
  double decode_tokens_per_s;    /**< Tokens after the first, in decode_ms. */
  uint64_t kv_units;             /**< Units of this session at the end; shared ones count in full. */
  uint64_t kv_bytes;             /**< Bytes of these units. */
  uint64_t pool_bytes_begin;     /**< Bytes of the model's pool that open sessions held when it began; a shared unit counts once. */
  uint64_t pool_bytes_prefilled; /**< The same at the first token, or at the end of a prefill. */
  uint64_t pool_bytes_end;       /**< The same at the end. */
  /** Tokens whose KV was computed a second time: the session's units were lent to others meanwhile, or reused KV made
   * NaN or infinite logits. */
  uint64_t recomputed;
  uint64_t drafted;  /**< Tokens that speculation proposed and a step checked. */
  uint64_t accepted; /**< Of these, tokens that the answer went on with: `generated` counts them, too. The others left nothing. */
} kvrt_report;

/** A saved session, as the store lists it. Times are milliseconds since 1970, UTC. */
typedef struct kvrt_store_entry {
  uint32_t struct_size;    /**< sizeof this struct. */
  uint32_t pinned;         /**< Its priority, 1 to 255; 0: not pinned. */
  char name[256];          /**< Its name, NUL-terminated. */
  char domain[256];        /**< NUL-terminated; "": the default domain. */
  char id[40];             /**< 32 hex digits, NUL-terminated. */
  uint64_t revision;       /**< Grows with every save of this name; none comes twice, even if the name was removed. */
  uint64_t tokens;         /**< Tokens of the conversation. */
  uint64_t chunks;         /**< KV chunks on disk, windows at boundaries among them. */
  uint64_t chunks_missing; /**< Further chunks, which are missing: a resume computes them again. */
  uint64_t bytes;          /**< Bytes of its chunks on disk. */
  uint64_t bytes_shared;   /**< Of these, bytes that other sessions use too. */
  int64_t created_unix_ms; /**< When the name was first saved. */
  int64_t saved_unix_ms;   /**< When it was last saved. */
  int64_t expires_unix_ms; /**< When it expires; 0: never. */
} kvrt_store_entry;

/** A token id with a number: its log probability, or its bias. */
typedef struct kvrt_token_value {
  int32_t token; /**< A token id, from 0. */
  float value;   /**< A natural log probability, or the number to add to the token's logit. */
} kvrt_token_value;

/** One event. Its pointers are the library's. They hold until the callback returns; those from next hold until the next
 * call on the session. (Calls that go beside it, convention 8, do not count.) */
typedef struct kvrt_event {
  uint32_t struct_size; /**< sizeof this struct. */
  uint32_t type;        /**< KVRT_EVENT_... */
  int32_t token;        /**< TOKEN: its id. */
  uint32_t reason;      /**< DONE: KVRT_REASON_... */
  /** TOKEN: its place in the session, from 0. LOGITS: the place of the token before the predicted one. */
  uint64_t position;
  const char* text; /**< TOKEN, DONE, FAULT, parts of a reply: whole characters in UTF-8; no NUL at the end; may be empty. */
  size_t text_size; /**< Bytes of text. */
  /** TOKEN: the natural log of its probability before grammar, bias, penalties, temperature and truncation. */
  double logprob;
  uint64_t done;                 /**< PROGRESS: done so far. */
  uint64_t total;                /**< PROGRESS: the total. */
  const float* logits;           /**< LOGITS: one for each token of the vocabulary. */
  size_t logits_count;           /**< LOGITS: the vocabulary's size. */
  const kvrt_report* report;     /**< DONE. */
  const kvrt_store_entry* entry; /**< ENTRY. */
  const kvrt_token_value* top;   /**< TOKEN with top_logprobs: the most probable tokens, the most probable first. */
  size_t top_count;              /**< Number of these. */
} kvrt_event;

/** Receives the events of a call. 0: go on; anything else stops the call. See convention 7. */
typedef int32_t (*kvrt_event_fn)(void* user, const kvrt_event* event);

/** @} */

/** @defgroup kvrt_runtime Runtime
 * A device with its threads, and the log.
 * @{ */

/** kvrt_runtime_options.log_level: this level and those before it are logged. */
enum {
  KVRT_LOG_DEFAULT = 0, /**< WARN. */
  KVRT_LOG_ERROR = 1,   /**< Something failed. */
  KVRT_LOG_WARN = 2,    /**< Something is wrong, and kvrt goes on. */
  KVRT_LOG_INFO = 3,    /**< A choice of kvrt's, and its reason. */
  KVRT_LOG_DEBUG = 4    /**< All that kvrt has to say. */
};

/** kvrt_runtime_options.isa: which instructions the CPU's kernels use. The results are the same with each. */
enum {
  KVRT_ISA_DEFAULT = 0, /**< The best that the machine has and that passes its self-check. */
  KVRT_ISA_SCALAR = 1,  /**< Scalar code. */
  KVRT_ISA_AVX2 = 2,    /**< AVX2. */
  KVRT_ISA_AVX512 = 3   /**< AVX-512. */
};

/** kvrt_runtime_options.device: what computes. A runtime computes on one device. Several runtimes may have a device each; one model
 * over several devices is UNSUPPORTED. CUDA is a library of its own, libkvrt_cuda.so. The first runtime that asks for
 * CUDA loads it, and it stays loaded until the process ends. libkvrt itself needs no driver and no file of NVIDIA's.
 * Each device has numerics of its own: a device does not use KV that another one computed, it computes the tokens again
 * (KVRT_REUSE_OTHER_NUMERICS), unless the host asks for that KV (KVRT_FOREIGN_KV_ACCEPT). */
enum {
  KVRT_DEVICE_DEFAULT = 0, /**< CPU. */
  KVRT_DEVICE_CPU = 1,     /**< The CPU. */
  /** An NVIDIA GPU. UNSUPPORTED if libkvrt_cuda.so, the driver or the device is missing: the message says which,
   * and where it was looked for. INCOMPATIBLE: libkvrt_cuda.so is of another version, or is another library. DEVICE:
   * the device is there and failed. */
  KVRT_DEVICE_CUDA = 2,
  KVRT_DEVICE_AUTO = 3 /**< CUDA if it opens, else the CPU; the log then says why (INFO). */
};

/** kvrt_runtime_options.determinism: which bits CUDA promises. A GPU has kernels for few rows and for many, which
 * round differently. Restored KV is exact with each choice. */
enum {
  KVRT_DETERMINISM_DEFAULT = 0, /**< BY_CLASS. */
  /** A row's bits depend on whether its step has few rows or many, and on the other rows in no other way. So the last
   * bits of a prompt's KV may change with the other sessions that generate, and with the cuts of the prompt into steps
   * (prefill_chunk, step_ms_max, a prefix that is found). */
  KVRT_DETERMINISM_BY_CLASS = 1,
  /** All of convention 11 holds, as on the CPU: every row takes the kernels for few rows. Prompts are computed 16 rows
   * at a time, so they read the weights more often and take longer. Decodes are as fast as ever. STRICT has numerics of
   * its own. */
  KVRT_DETERMINISM_STRICT = 2,
  KVRT_DETERMINISM_NONE = 3 /**< A row's bits may depend on all rows of its step, if that is faster. */
};

/** kvrt_runtime_options.prompt_gemm: the precision in which CUDA multiplies a prompt. It applies to steps of more than
 * 64 tokens (16 if the weights are F16 or BF16). */
enum {
  KVRT_GEMM_DEFAULT = 0, /**< F16. */
  KVRT_GEMM_F16 = 1,     /**< Activations and weights are rounded to F16. */
  /** They are rounded to FP8 (E4M3, a scale for each row): half the bytes of F16, 3 bits of fraction. On one model
   * (135M parameters) the logits were off by 7 % of the largest, and perplexity rose by 4 %: try it on your own
   * prompts. Its KV has numerics of its own ("cuda-2-sm90-f8") and is never taken for F16's, nor the other way round.
   * FP8 needs compute capability 8.9 and cuBLASLt, else UNSUPPORTED: the message says which is missing. Matrices that
   * are F32 in the file, or whose sides are not multiples of 16, stay F16. INVALID with STRICT, which has no such steps.
   * On an H100 it was slower than F16, 0.5 to 0.9 times: making FP8 of the weights took more than it saved. */
  KVRT_GEMM_FP8 = 2
};

/** Receives a line of the log: `level` is KVRT_LOG_ERROR to KVRT_LOG_DEBUG, `text` has text_size bytes. It may come on
 * any thread and must not call kvrt. */
typedef void (*kvrt_log_fn)(void* user, int32_t level, const char* text, size_t text_size);

/** Frees the user pointer of a callback that is kept: see convention 7. */
typedef void (*kvrt_free_fn)(void* user);

/** Options of kvrt_runtime_open. */
typedef struct kvrt_runtime_options {
  uint32_t struct_size; /**< sizeof this struct. */
  /** Compute threads, the caller's included, at most 256; 0: one for each CPU that affinity and cgroup leave. */
  uint32_t threads;
  uint32_t isa;               /**< KVRT_ISA_... UNSUPPORTED: the machine lacks it. INVALID with KVRT_DEVICE_CUDA. */
  uint32_t log_level;         /**< KVRT_LOG_... */
  kvrt_log_fn log;            /**< Receives the lines of the log; NULL: nothing is logged. */
  void* log_user;             /**< Its user pointer. */
  kvrt_free_fn log_user_free; /**< Called once with log_user after the last call of log; not if open fails; NULL: none. */
  uint32_t device;            /**< KVRT_DEVICE_... */
  /** Which of the driver's CUDA devices, from 0. UNSUPPORTED: there is no such device (with AUTO the CPU computes
   * then). INVALID with the CPU, except 0. */
  uint32_t device_index;
  const char* cuda_library; /**< Path of libkvrt_cuda.so; NULL: the one beside libkvrt, else as the dynamic linker finds it. */
  size_t cuda_library_size; /**< Bytes of that path. */
  uint32_t determinism;     /**< KVRT_DETERMINISM_... The CPU ignores it. */
  /** KVRT_GEMM_... INVALID with KVRT_DEVICE_CPU, except DEFAULT. With KVRT_DEVICE_AUTO the CPU ignores it. */
  uint32_t prompt_gemm;
} kvrt_runtime_options;

/** A runtime's device, threads and libraries. Texts are NUL-terminated. */
typedef struct kvrt_runtime_props {
  uint32_t struct_size;        /**< sizeof this struct. */
  uint32_t threads;            /**< Compute threads. */
  char device[16];             /**< "cpu" or "cuda". */
  char isa[16];                /**< The kernels in use: "avx2", "sm_90". */
  char numerics[16];           /**< The arithmetic's version: "cpu-3", "cuda-2-sm90", "cuda-1s-sm90" (strict), "cuda-2-sm90-f8". */
  char isa_tables[128];        /**< Every set of the CPU's kernels, with "ok", "not on this machine" or "differs from scalar". */
  char libraries[128];         /**< Libraries in use: "sqlite 3.40.1, zstd 1.5.4, ..." */
  char device_name[64];        /**< CUDA: the device, as its maker calls it. Empty on the CPU. */
  uint64_t device_memory;      /**< CUDA: its memory in bytes. 0 on the CPU. */
  uint64_t device_memory_free; /**< CUDA: how much of that is free now. 0 on the CPU. */
  /** CUDA, as it was at open, a line each: the versions of driver and runtime, cuBLASLt's or why there is none, every
   * device, the path of libkvrt_cuda.so. Empty on the CPU. */
  char devices[1024];
} kvrt_runtime_props;

/** Opens a runtime. The CPU's kernels check themselves first; with CUDA the driver starts.
 * - `options`: NULL is all defaults: the CPU, a thread for each CPU that affinity and cgroup leave, no log.
 * - `*out`: the new runtime. The caller owns it, and releases it with kvrt_runtime_release.
 * - Statuses: LIMIT: more than 256 threads. UNSUPPORTED: the machine or this build lacks the isa or the device; or the
 *   process has an SQLite, zstd, PCRE2 or libsodium of its own, which took the place of the one that this library was
 *   linked with (the message names both, their versions and files). INCOMPATIBLE: libkvrt_cuda.so is of another
 *   version. DEVICE: the device failed. A library that has SQLite and the others inside (KVRT_STATIC_DEPS: the wheel,
 *   the tarball) works beside any others.
 * - Blocks: milliseconds; a CUDA driver takes longer to start. */
KVRT_API kvrt_status kvrt_runtime_open(const kvrt_runtime_options* options, kvrt_runtime** out, kvrt_error* err);

/** Adds an owner to the handle. NULL is a no-op. */
KVRT_API void kvrt_runtime_retain(kvrt_runtime* runtime);

/** Takes an owner away; after the last one the handle is gone. NULL is a no-op. Models, stores and sessions keep the
 * runtime itself as long as they are there.
 * - Blocks: the last owner ends its threads, if nothing else keeps the runtime. */
KVRT_API void kvrt_runtime_release(kvrt_runtime* runtime);

/** Describes the runtime's device, threads and libraries.
 * - Statuses: none of its own. */
KVRT_API kvrt_status kvrt_runtime_info(const kvrt_runtime* runtime, kvrt_runtime_props* out, kvrt_error* err);

/** Sets the number of compute threads from the next step on: 1 to 256; 0: one for each CPU that affinity and cgroup
 * leave. It may be called at any time.
 * - Statuses: LIMIT: more than 256. */
KVRT_API kvrt_status kvrt_runtime_set_threads(kvrt_runtime* runtime, uint32_t threads, kvrt_error* err);

/** @} */

/** @defgroup kvrt_model Model
 * Weights, tokenizer and chat template of a GGUF file, and a pool for the KV of its sessions.
 * @{ */

/** The format in which K or V is stored; the two may have different ones. A token takes kv_heads * head_dim elements
 * of each in every layer. A latent (DeepSeek) holds K and V in one row of head_dim, so both have one format. INT8 and
 * FP8 also take a scale of 2 bytes for each row of K and of V, in every layer and KV head. K in INT8, FP8 and INT4 is stored without a bias of its
 * projection that is large beside what the projection gives (Qwen2.5), and attention adds it again. KV of one pair of formats is never used for another: a session that is resumed with another pair keeps its tokens, and
 * its KV is computed again (KVRT_REUSE_OTHER_NUMERICS). Every device computes with every pair. */
enum {
  KVRT_KV_DEFAULT = 0, /**< F16. */
  KVRT_KV_F16 = 1,     /**< 2 bytes an element. */
  KVRT_KV_BF16 = 2,    /**< 2 bytes: the range of F32 and an eighth of F16's precision. */
  KVRT_KV_F32 = 3,     /**< 4 bytes. */
  /** 1 byte. It halves memory, saved KV and the bytes that a decode reads. K is stored transformed (Walsh-Hadamard),
   * which spreads its large elements. The loss is small beside that of 4-bit weights, yet not nothing. */
  KVRT_KV_INT8 = 4,
  /** 1 byte, E4M3. It halves the same as INT8 and loses more: with SmolLM2 a divergence 13 times INT8's. Take INT8,
   * unless you want K stored as it is, or each element with a precision relative to itself. */
  KVRT_KV_FP8 = 5,
  /** 4 bits, and a scale of 2 bytes for each 32 elements: 0.28 of F16's bytes (head_dim counts as the next multiple of
   * 32). K and V are stored transformed, as K of INT8 is. With Qwen2.5-Coder 0.5B a divergence 64 times INT8's, with
   * SmolLM2 90 times; of K in INT8 and V in INT4, 9 and 13 times. `kvrt eval` says what it costs a model. */
  KVRT_KV_INT4 = 6
};

/** Groups of layers that a model has at most: entries of the arrays kv_group_... */
#define KVRT_KV_GROUPS_MAX 8

/** kvrt_model_props.kv_group_kind: what a group's layers keep of the tokens. */
enum {
  KVRT_GROUP_EVERYTHING = 1, /**< The KV of all of them. */
  KVRT_GROUP_WINDOW = 2,     /**< The KV of the last ones, kv_group_window of which a token sees. */
  KVRT_GROUP_RECURRENT = 3   /**< A recurrent state. */
};

/** kvrt_model_options.cache: which directory keeps weights from one open to the next, if cache_dir names none. In a
 * program that has more rights than its user (setuid) the environment is not read. */
enum {
  KVRT_CACHE_DEFAULT = 0, /**< The directory in the environment variable KVRT_CACHE; none if that is unset or empty. */
  KVRT_CACHE_NONE = 1,    /**< None, whatever the environment says. INVALID with a cache_dir. */
  /** As DEFAULT; if KVRT_CACHE is unset, the user's directory: `$XDG_CACHE_HOME/kvrt/weights`, else
   * `$HOME/.cache/kvrt/weights`, made with mode 0700. A relative path in these variables counts as unset. None if both
   * are unset, the directory is another user's, or it is on a network file system; the log says why (INFO). It is meant
   * for programs that a user starts. */
  KVRT_CACHE_USER = 2
};

/** Options of kvrt_model_open. */
typedef struct kvrt_model_options {
  uint32_t struct_size;  /**< sizeof this struct. */
  uint32_t kv_format;    /**< KVRT_KV_...: of K, and of V if kv_format_v is 0. */
  uint32_t block_tokens; /**< Tokens of a block: 16, 32, 64, 128 or 256; 0: 32. */
  /** Prompt tokens of a step at most, 1 to 512; 0: 512. It holds whatever step_ms_max allows. A smaller number makes
   * cancel take effect sooner. */
  uint32_t prefill_chunk;
  /** Bytes of the pool, reserved at open. At least the KV of two blocks (and a unit of zeros if layers have windows or are
   * recurrent); at most the memory of the machine (CUDA: of the device). 0: four contexts, and at most a quarter of the
   * free memory. */
  uint64_t kv_bytes_max;
  /** Milliseconds that a step may take, 1 to 60000; 0: 50. A step takes as many prompt tokens as fit this time by
   * measured speed, and one at least; if decodes fill the time already, the prompt has half of their time. With 0, a
   * prompt that delays nobody may have steps of up to 500 ms, and a step without decodes has at least 32 prompt tokens.
   * "Pace" in docs/USING.md has the details. */
  uint32_t step_ms_max;
  uint32_t from_fd; /**< 1: read the file from `fd`. The path then only names it in messages, and may be NULL. */
  /** from_fd: a descriptor open for reading, seekable. The caller keeps it, and may close it after model_open.
   * 0 without from_fd. */
  int32_t fd;
  /** 1: the whole pool gets its memory at open, or NO_MEMORY if less is free. 0: a page gets its memory on its
   * first use, which can double the time of a step on a virtual machine. */
  uint32_t kv_populate;
  uint64_t fd_offset; /**< from_fd: the byte of `fd` at which the GGUF begins. */
  uint64_t fd_size;   /**< from_fd: its bytes; 0: to the end of the file. */
  /** Path of a directory that keeps the weights as the CPU has them in memory; NULL: see `cache`. It is made if it is
   * missing.
   *
   * The first open of a model writes a file of about its size there. Later opens map that file, which is faster, and
   * processes share its pages. When several processes open at once, one writes and the others wait for it: at most
   * half a minute, and a second more for each 50 MB. Checksums guard every byte at open. The file is matched to its
   * model by the model file's inode, size, times and header and a sample of its tensors, not by reading it all: a copy
   * of the model has a file of its own.
   *
   * No other user may be able to write the directory. While a model uses a file of it, the file may be removed, but
   * not changed. Whatever is wrong with the directory is logged (WARN) and costs only time. It is not used for a
   * part of a file (fd_size), nor on CUDA. A callback of model_open that opens another model with the same directory
   * waits as another process would. */
  const char* cache_dir;
  size_t cache_dir_size; /**< Bytes of that path. */
  uint32_t cache;        /**< KVRT_CACHE_... */
  uint32_t kv_format_v;  /**< KVRT_KV_...: of V; 0: as K's. */
  /** Bytes of all files in the weight cache together; 0: a tenth of the file system, at most 20 GiB. To make room for a
   * new file, files that no process maps are removed, the least recently used first. A file that finds no room, or that
   * would leave less than a twentieth of the file system free (at most 1 GiB), is not written. */
  uint64_t cache_bytes_max;
} kvrt_model_options;

/** A model's shape, sizes and pool. Texts are NUL-terminated. Sizes are bytes. If has_weights is 0 there are no
 * layers, no pool and no sessions: their fields mean nothing. */
typedef struct kvrt_model_props {
  uint32_t struct_size; /**< sizeof this struct. */
  /** 0: the file has only a vocabulary: tokenize, detokenize and apply_template work, sessions do not. */
  uint32_t has_weights;
  char architecture[32];       /**< As the file names it: "llama". */
  char name[128];              /**< As the file names it; "": it does not. */
  uint32_t vocab_size;         /**< Tokens that the model knows. */
  uint32_t context_length;     /**< Tokens that a session can have. */
  uint32_t layers;             /**< Layers. */
  uint32_t heads;              /**< Query heads of a layer; the most of any if layers differ. */
  uint32_t kv_heads;           /**< KV heads of a layer; the most likewise. */
  uint32_t head_dim;           /**< Elements of a head of K; of a latent, which all heads share. */
  uint32_t width;              /**< Elements of a token's embedding. */
  int32_t bos_token;           /**< Its id; -1: none. BERT's is [CLS]. */
  int32_t eos_token;           /**< Its id; -1: none. BERT's is [SEP]. */
  uint32_t add_bos;            /**< 1: append_text to an empty session adds BOS. */
  uint32_t has_template;       /**< 1: the file has a chat template that parses. append_message says what is wrong. */
  uint32_t block_tokens;       /**< Tokens of a block. */
  uint64_t file_bytes;         /**< The file's size. */
  uint64_t weight_bytes;       /**< The weights in memory. */
  uint64_t kv_bytes_per_token; /**< KV of a token in all layers. */
  uint64_t unit_bytes;         /**< Bytes of a unit. */
  uint64_t units;              /**< Units of the pool. */
  uint64_t units_free;         /**< Of these, unused. */
  /** Of these, held by no session, and kept for a prompt that begins the same; given up when needed. */
  uint64_t units_cached;
  uint64_t sessions; /**< Sessions that are open now. */
  double load_ms;    /**< Milliseconds that model_open took. */
  /** A step's activations and logits. CUDA: with the memory of kernels and cuBLASLt, which models share. */
  uint64_t scratch_bytes;
  uint32_t step_ms_max; /**< Milliseconds that a step may take. */
  uint32_t kv_format;   /**< KVRT_KV_...: of K, never DEFAULT. */
  uint32_t kv_format_v; /**< KVRT_KV_...: of V, never DEFAULT. */
  /** Groups of layers: how many entries of the arrays kv_group_... count. A group that keeps everything comes first. */
  uint32_t kv_groups;
  uint32_t kv_group_layers[KVRT_KV_GROUPS_MAX]; /**< Layers of the group; not those that read another's KV (Gemma 4). */
  /** WINDOW: tokens that a token sees in them, itself included. Other kinds: 0. */
  uint32_t kv_group_window[KVRT_KV_GROUPS_MAX];
  /** Bytes of the group's units, for each token of a block. A session of n tokens has, in each group, KV of at most n
   * tokens, rounded up to whole blocks, or of kv_group_tokens_max if that is less. Of recurrent layers each block counted
   * so is a recurrent state: a session has at most two, and one at each boundary. */
  uint32_t kv_group_bytes_per_token[KVRT_KV_GROUPS_MAX];
  uint32_t kv_group_tokens_max[KVRT_KV_GROUPS_MAX]; /**< The most tokens of which a session has KV, in whole blocks; 0: all. */
  uint32_t kv_group_kind[KVRT_KV_GROUPS_MAX];       /**< KVRT_GROUP_... */
} kvrt_model_props;

/** Opens a GGUF file, which must not change while the model is open.
 * - `path`, path_size: the file; of a split model the first, NAME-00001-of-0000N.gguf, which has the others beside it.
 *   See from_fd for a descriptor instead.
 * - `callback`: PROGRESS in bytes.
 * - `*out`: the new model. The caller owns it, and releases it with kvrt_model_release.
 * - Statuses: INVALID: an option outside its bounds, or a split model's file that is not the first. NOT_FOUND: no such
 *   file, or one of a split model is missing. CORRUPT: the file is not a valid GGUF, or files are of different models.
 *   UNSUPPORTED: an unknown architecture, tensor type or tokenizer: the message names it. LIMIT: kv_bytes_max is more
 *   than the machine's memory, or too small. NO_MEMORY. IO. DEVICE. CANCELLED: by the callback.
 * - Blocks: until the file is read. */
KVRT_API kvrt_status kvrt_model_open(kvrt_runtime* runtime, const char* path, size_t path_size, const kvrt_model_options* options,
                                     kvrt_event_fn callback, void* user, kvrt_model** out, kvrt_error* err);

/** Adds an owner to the handle. NULL is a no-op. */
KVRT_API void kvrt_model_retain(kvrt_model* model);

/** Takes an owner away; after the last one the handle is gone. NULL is a no-op. The weights go with the model's last
 * session. */
KVRT_API void kvrt_model_release(kvrt_model* model);

/** Describes the model, and its pool as it is now.
 * - Statuses: none of its own. */
KVRT_API kvrt_status kvrt_model_info(const kvrt_model* model, kvrt_model_props* out, kvrt_error* err);

/** Flags of tokenize, detokenize and the calls like them; combine with |. */
enum {
  /** Into tokens: text that spells a special token becomes it. Into text: special tokens are spelled out. */
  KVRT_TEXT_SPECIAL = 1,
  KVRT_TEXT_BOS = 2 /**< tokenize: begin with the model's BOS token, if it has one. */
};

/** Turns text into tokens.
 *
 * Bytes that are not valid UTF-8 become the vocabulary's byte tokens, which come back as the same bytes; SentencePiece's
 * vocabularies that have none take each as U+FFFD. Bytes for which the vocabulary has neither a token nor an unknown
 * token (the byte 04, for example) are left out, as the models' own tokenizers do, and a WARN in the log says how many.
 * If the model's own tokenizer composes characters (NFC: Qwen, Command R, OLMo, Hunyuan, StableLM 2), so does kvrt: `e`
 * and U+0301 become the tokens of U+00E9, and such text does not come back byte for byte. This holds for the text of
 * every call.
 * - `flags`: KVRT_TEXT_SPECIAL, KVRT_TEXT_BOS.
 * - `tokens`, capacity, needed: the token ids.
 * - Statuses: INVALID: an unknown flag. LIMIT: the text is too long. TOO_SMALL. */
KVRT_API kvrt_status kvrt_model_tokenize(const kvrt_model* model, const char* text, size_t text_size, uint32_t flags, int32_t* tokens,
                                         size_t capacity, size_t* needed, kvrt_error* err);

/** Turns tokens into their bytes. If the last token ends within a character, so does the text. If the vocabulary puts a
 * space before every text (add_space_prefix), the first token's leading space is left out.
 * - `flags`: KVRT_TEXT_SPECIAL.
 * - `text`, capacity, needed: the bytes.
 * - Statuses: INVALID: an unknown flag, or an id outside the vocabulary. TOO_SMALL. */
KVRT_API kvrt_status kvrt_model_detokenize(const kvrt_model* model, const int32_t* tokens, size_t count, uint32_t flags, char* text,
                                           size_t capacity, size_t* needed, kvrt_error* err);

/** Options of kvrt_model_apply_template. */
typedef struct kvrt_template_options {
  uint32_t struct_size;          /**< sizeof this struct. */
  uint32_t no_generation_prompt; /**< 1: do not open the assistant's turn. */
  /** A Jinja template to use instead of the model's; the model may then be NULL. NULL: the model's. */
  const char* source;
  size_t source_size;    /**< Bytes of it. */
  const char* tools;     /**< A JSON array, the template's variable `tools`; NULL: none. */
  size_t tools_size;     /**< Bytes of it. */
  const char* documents; /**< A JSON array, the template's variable `documents`; NULL: none. */
  size_t documents_size; /**< Bytes of it. */
  /** A JSON object with more variables by name: `{"enable_thinking": false}`; NULL: none. They may replace bos_token
   * and eos_token. */
  const char* variables;
  size_t variables_size; /**< Bytes of it. */
} kvrt_template_options;

/** Renders messages with the chat template.
 * - `messages`: a JSON array of messages: `[{"role": "user", "content": "Hello"}]`.
 * - `text`, capacity, needed: the rendered text.
 * - Statuses: INVALID: not a JSON array of messages, or the template refuses them or does not parse (TEMPLATE_ERROR).
 *   LIMIT: the template takes too long or too much (TEMPLATE_LIMIT). UNSUPPORTED: the model has no template, or its
 *   template uses a feature that kvrt lacks (the message names it). TOO_SMALL.
 * - Blocks: about 100 ms at most. */
KVRT_API kvrt_status kvrt_model_apply_template(const kvrt_model* model, const char* messages, size_t messages_size,
                                               const kvrt_template_options* options, char* text, size_t capacity, size_t* needed,
                                               kvrt_error* err);

/** Computes for all generating sessions of the model, for hosts with a loop of their own. It runs steps until no
 * session can go on, or until `ms` milliseconds are up. Take the events with kvrt_session_next and timeout 0; when a
 * session fails, its next says so.
 * - `ms`: 0: one step.
 * - `runnable`: the number of sessions that could go on now; may be NULL.
 * - Statuses: none of its own.
 * - Blocks: `ms`, or one step if that is longer (see step_ms_max). A step that another thread computes is waited
 *   for, and counts. */
KVRT_API kvrt_status kvrt_model_step(kvrt_model* model, uint32_t ms, uint32_t* runnable, kvrt_error* err);

/** A model's counters since it was opened, and its gauges. prompt_tokens to generated are sums of these fields in the
 * reports, and count what failed, too. */
typedef struct kvrt_metrics {
  uint32_t struct_size;       /**< sizeof this struct. */
  uint64_t sessions;          /**< Sessions open now. */
  uint64_t generating;        /**< Of these, from begin to DONE. */
  uint64_t paused;            /**< Of these, waiting for their host. */
  uint64_t units;             /**< Units of the pool. */
  uint64_t units_used;        /**< Of these, held by sessions now. */
  uint64_t units_cached;      /**< Of these, held by no session, and kept for a prompt that begins the same. */
  uint64_t steps;             /**< Steps that were run. */
  uint64_t step_rows;         /**< Rows in them, one for each token. */
  double step_ms_total;       /**< Milliseconds of all steps. */
  double step_ms_longest;     /**< Milliseconds of the longest. */
  uint64_t generations;       /**< Generations that were begun, prefills left out. */
  uint64_t prefills;          /**< Prefills that were begun. */
  uint64_t done_eos;          /**< Ended by KVRT_REASON_EOS. */
  uint64_t done_stop;         /**< Ended by KVRT_REASON_STOP. */
  uint64_t done_max_tokens;   /**< Ended by KVRT_REASON_MAX_TOKENS. */
  uint64_t done_context_full; /**< Ended by KVRT_REASON_CONTEXT_FULL. */
  uint64_t done_cancelled;    /**< Ended by KVRT_REASON_CANCELLED. */
  uint64_t done_prefilled;    /**< Ended by KVRT_REASON_PREFILLED. */
  uint64_t failed;            /**< Ended by a failure. */
  uint64_t prompt_tokens;     /**< Sum of prompt_tokens. */
  uint64_t reused_memory;     /**< Sum of reused_memory. */
  uint64_t reused_disk;       /**< Sum of reused_disk. */
  uint64_t prefilled;         /**< Sum of prefilled. */
  uint64_t recomputed;        /**< Sum of recomputed. */
  uint64_t generated;         /**< Sum of generated. */
  uint64_t drafted;           /**< Sum of drafted. */
  uint64_t accepted;          /**< Sum of accepted. */
  uint64_t preemptions;       /**< Generations that lent their units to others. */
  uint64_t evictions;         /**< Cached blocks that were given up. */
  uint64_t first_tokens;      /**< Generations that gave a token: the sums of milliseconds below are over these. */
  double ttft_ms_total;       /**< Sum of ttft_ms. */
  double queue_ms_total;      /**< Sum of queue_ms. */
  double prefill_ms_total;    /**< Sum of prefill_ms. */
  double decode_ms_total;     /**< Sum of decode_ms, over `generated - first_tokens` tokens. */
} kvrt_metrics;

/** Gives the model's counters now.
 * - Statuses: none of its own. */
KVRT_API kvrt_status kvrt_model_metrics(const kvrt_model* model, kvrt_metrics* out, kvrt_error* err);

/** Gives the model's counters as text in Prometheus' format, version 0.0.4.
 * - `label_value`: the value of the label `model`, UTF-8; NULL: the model's name.
 * - `text`, capacity, needed: the text. Numbers have a decimal point in every locale.
 * - Statuses: INVALID: label_value is not UTF-8. TOO_SMALL. */
KVRT_API kvrt_status kvrt_model_metrics_text(const kvrt_model* model, const char* label_value, size_t label_value_size, char* text,
                                             size_t capacity, size_t* needed, kvrt_error* err);

/** The sessions that kvrt_model_plan plans for. */
typedef struct kvrt_plan_options {
  uint32_t struct_size;    /**< sizeof this struct. */
  uint32_t kv_format;      /**< As in kvrt_model_options. */
  uint32_t block_tokens;   /**< As in kvrt_model_options; 0: 32. */
  uint32_t sessions;       /**< Number of sessions, at most 65536; 0: 1. */
  uint64_t session_tokens; /**< Tokens of each, at most the model's context; 0: the model's context. */
  uint64_t shared_tokens;  /**< Leading tokens that all sessions have in common, at most session_tokens. */
  uint64_t memory_bytes;   /**< The budget for everything; 0: the device's free memory. */
  uint32_t layers;         /**< With path NULL: the geometry that takes the file's place (weights and scratch are 0 then); else 0. */
  uint32_t kv_heads;       /**< The same. */
  uint32_t head_dim;       /**< The same. */
  uint32_t kv_format_v;    /**< As in kvrt_model_options. */
} kvrt_plan_options;

/** The memory that a model and its sessions take. Sizes are bytes. */
typedef struct kvrt_plan {
  uint32_t struct_size;        /**< sizeof this struct. */
  uint32_t block_tokens;       /**< Tokens of a block. */
  uint32_t layers;             /**< As in kvrt_model_props. */
  uint32_t heads;              /**< As in kvrt_model_props; 0 for a geometry. */
  uint32_t kv_heads;           /**< As in kvrt_model_props. */
  uint32_t head_dim;           /**< As in kvrt_model_props. */
  uint32_t context_length;     /**< As in kvrt_model_props; 0 for a geometry. */
  uint32_t fits;               /**< 1: total_bytes is at most memory_bytes. */
  uint64_t kv_bytes_per_token; /**< As in kvrt_model_props. */
  uint64_t unit_bytes;         /**< As in kvrt_model_props. */
  uint64_t weight_bytes;       /**< The weights in memory. */
  uint64_t scratch_bytes;      /**< A step's activations and logits, as in kvrt_model_props. */
  uint64_t session_units;      /**< The most units of one session; with windows it has fewer between its steps. */
  uint64_t session_bytes;      /**< Bytes of these. */
  double used;                 /**< Share of these bytes that hold tokens' KV and recurrent states, 0 to 1. */
  double waste;                /**< 1 - used. */
  uint64_t units;              /**< Units of all sessions, shared ones once. */
  uint64_t kv_bytes;        /**< Bytes of the pool with these: if layers have windows or are recurrent, it has one unit more, of zeros. */
  uint64_t stored_tokens;   /**< Tokens that these units hold. */
  uint64_t unshared_tokens; /**< Tokens that they would hold without sharing. */
  uint64_t total_bytes;     /**< Weights, scratch and KV. */
  uint64_t memory_bytes;    /**< The budget. */
  uint64_t sessions_max;    /**< Sessions of that length that fit the budget. */
  uint64_t context_max;     /**< Tokens of a single session that fit the budget. */
  uint32_t kv_groups;       /**< This and the next ones: as in kvrt_model_props, with steps of 512 tokens. */
  uint32_t kv_group_layers[KVRT_KV_GROUPS_MAX];          /**< Layers of the group; not those that read another's KV. */
  uint32_t kv_group_window[KVRT_KV_GROUPS_MAX];          /**< WINDOW: tokens that a token sees in them. Other kinds: 0. */
  uint32_t kv_group_bytes_per_token[KVRT_KV_GROUPS_MAX]; /**< Bytes of the group's units, for each token of a block. */
  uint32_t kv_group_tokens_max[KVRT_KV_GROUPS_MAX];      /**< The most tokens of which a session has KV; 0: all. */
  uint64_t recurrent_bytes; /**< A recurrent state of all layers, without what its units have beyond it; 0: there is none. */
  uint64_t boundary_bytes;  /**< What the pool keeps for one boundary at most (kvrt_session_mark); 0: it needs to keep nothing. */
  uint64_t boundaries;      /**< Boundaries of this size that the planned pool keeps beside what sessions hold, at most. */
  uint32_t kv_group_kind[KVRT_KV_GROUPS_MAX]; /**< KVRT_GROUP_... */
} kvrt_plan;

/** Computes the memory that a model and its sessions will take. It reads only the file's header, no weights.
 * kvrt_model_open allocates by the same functions.
 * - `path`, path_size: the file; NULL: a geometry, in the options.
 * - Statuses: NOT_FOUND, IO, CORRUPT, UNSUPPORTED: as kvrt_model_open says of the file. INVALID: a path and a
 *   geometry, or neither; a geometry without session_tokens; more shared_tokens than session_tokens. LIMIT: more
 *   sessions or tokens than a limit or the context allows, or more than any machine could hold.
 * - Blocks: until the header is read. */
KVRT_API kvrt_status kvrt_model_plan(const kvrt_runtime* runtime, const char* path, size_t path_size, const kvrt_plan_options* options,
                                     kvrt_plan* out, kvrt_error* err);

/** The weight cache that kvrt_model_options name (cache_dir, cache). Sizes are bytes. */
typedef struct kvrt_cache_props {
  uint32_t struct_size; /**< sizeof this struct. */
  uint32_t files;       /**< Models there, each in the layout of one machine's CPU. */
  uint64_t bytes;       /**< Their size. */
  uint64_t bytes_max;   /**< cache_bytes_max, or its default there. */
  uint64_t bytes_free;  /**< Free on the file system, less the part that stays free. */
  char directory[4096]; /**< Absolute and without links, NUL-terminated. It may be missing yet. */
} kvrt_cache_props;

/** Describes the weight cache that the options name, and makes nothing.
 * - Statuses: NOT_FOUND: the options name no directory. The directory, or the one in which it would be made, can get no
 *   new file: INVALID: it is another user's, or others can write it. IO: it cannot be written. UNSUPPORTED:
 *   KVRT_CACHE_USER on a network file system. If only writing is impossible, models use the files in it all the
 *   same.
 * - Blocks: reading the directory. */
KVRT_API kvrt_status kvrt_model_cache(const kvrt_runtime* runtime, const kvrt_model_options* options, kvrt_cache_props* out,
                                      kvrt_error* err);

/** Flags of kvrt_model_inspect. */
enum {
  KVRT_INSPECT_ALL = 1 /**< Arrays to their end; without it only their first elements. */
};

/** Describes the contents of a GGUF file as JSON. It reads only the header:
 *
 *     {"file", "file_bytes",
 *      "metadata": {KEY: VALUE; an array is {"array": TYPE, "length", "first" or "elements"}},
 *      "types":    {TYPE: {"tensors", "bytes"}},
 *      "tensors":  [{"name", "type", "shape": the contiguous dimension first, "bytes"}],
 *      "refused":  [{"what": "tokenizer", "chat template" or "model", "status", "message"}]}
 *
 * "refused" lists the parts that kvrt cannot run.
 * - `flags`: KVRT_INSPECT_ALL.
 * - `json`, capacity, needed: the text.
 * - Statuses: NOT_FOUND: no such file. CORRUPT: the file is not a valid GGUF. IO. LIMIT: the file exceeds a limit of
 *   kvrt's. TOO_SMALL.
 * - Blocks: until the header is read. */
KVRT_API kvrt_status kvrt_model_inspect(const kvrt_runtime* runtime, const char* path, size_t path_size, uint32_t flags, char* json,
                                        size_t capacity, size_t* needed, kvrt_error* err);

/** @} */

/** @defgroup kvrt_store Store
 * A directory of saved sessions. Any number of processes may have one open.
 *
 * These hold for the calls below:
 * - `domain`, domain_size: the session's sharing scope. NULL or "": the default domain. (kvrt_store_list tells the
 *   two apart.)
 * - `name`, name_size: the session's name, 1 to 255 bytes of UTF-8.
 * - An expired session that is not pinned is NOT_FOUND, and its name is free.
 * - A call that writes waits for the other writers of the store at most 5 seconds in all, then it is BUSY
 *   (STORE_LOCKED). A call that reads waits for no writer. On a store that is open read-only a call that writes is IO
 *   (READ_ONLY).
 * - When remove, rename, pin or set_ttl returns OK, its change survives a power cut.
 * @{ */

/** Options of kvrt_store_open. */
typedef struct kvrt_store_options {
  uint32_t struct_size; /**< sizeof this struct. */
  /** 1: never write.
   *
   * A directory that cannot be written is opened so by itself. So is a store that was closed and whose file system has
   * no room or no inode for the catalog's log; a WARN in the log says why. Then the next call that writes, or
   * kvrt_store_open of the same directory, takes up writing if there is room; else a call that writes is NO_SPACE, and
   * its message names what is missing.
   *
   * If no process has it open for writing at that moment, it is read without the log. After somebody writes, reads fail
   * with IO: open it again. */
  uint32_t read_only;
  uint32_t must_exist; /**< 1: NOT_FOUND instead of making a new store. */
  uint32_t reserved;   /**< Must be 0: a later version may have an option here. */
  /** Bytes that catalog and segments may take on the disk, as kvrt_store_props.disk_bytes counts them; 0: no cap.
   * If KV would pass the cap, other saved sessions lose KV (see kvrt_store_pin); if that is not enough, the save leaves
   * KV out. A save whose tokens would pass it is NO_SPACE. The catalog's log may pass it by some 100 KiB
   * until the next save or gc. */
  uint64_t disk_bytes_max;
  /** Bytes that KV leaves free on the file system, for tokens and for others; 0: a twentieth of the file system, at
   * most 1 GiB. It is 64 KiB at least. A save makes room as for disk_bytes_max. */
  uint64_t free_bytes_min;
} kvrt_store_options;

/** A store's contents and its size on disk. */
typedef struct kvrt_store_props {
  uint32_t struct_size; /**< sizeof this struct. */
  /** 1: it is open only for reading. 2: only for reading for lack of room, until a call that writes finds some: see
   * kvrt_store_options.read_only. 0: for writing. */
  uint32_t read_only;
  uint32_t format;          /**< The directory's format number. */
  uint64_t sessions;        /**< Saved sessions, of all domains. */
  uint64_t chunks;          /**< KV chunks on disk. */
  uint64_t segments;        /**< Files that hold them. */
  uint64_t chunk_bytes;     /**< Bytes of the chunks on disk. */
  uint64_t chunk_raw_bytes; /**< Bytes of the KV in them, uncompressed. */
  /** Lengths of catalog and segments: a hole that gc punched still counts, as it does for disk_bytes_max. */
  uint64_t disk_bytes;
  uint64_t chunks_damaged; /**< Damaged chunks that were found since open. */
  uint64_t chunks_evicted; /**< Chunks that were given up for lack of room since open. */
  uint64_t old_bytes;      /**< Bytes of the backups of migrations and repairs, not in disk_bytes: see kvrt_store_remove_old. */
  /** Bytes of KV that saves may add within disk_bytes_max and free_bytes_min, before they evict other KV. */
  uint64_t bytes_free;
  /** Resumes of sessions whose KV was given up for lack of room after they were saved, since the store was made or
   * repaired: if there are many, disk_bytes_max is small. A resume beside another process's write may not count. */
  uint64_t resumes_evicted;
} kvrt_store_props;

/** Opens a store, and makes it if there is none. A new directory has mode 0700. A store that an older kvrt made is
 * migrated. A directory that is open in this runtime already gives the same store: `options` are checked, and otherwise
 * ignored. If that directory or its catalog was moved, removed or replaced since, the call opens what is there now. The
 * old handle and its sessions then read what they can, and a call that writes is IO. If only the catalog was replaced,
 * beside the log of the one that is open, the call is IO until that is closed.
 *
 * The directory must be on a local file system. Its files hold the conversations in clear: keep them as private as
 * these. Their checksums find damage; they do not protect against forgery: a forged store is believed, KV and all. Open
 * only directories that you trust as your own process.
 * - `*out`: the store. The caller owns the handle, and releases it with kvrt_store_release.
 * - Statuses: NOT_FOUND: the parent directory is missing; or there is no store, with must_exist or read_only. BUSY:
 *   another process makes, migrates or repairs it. CORRUPT: the catalog is damaged or another store's (CATALOG_CORRUPT:
 *   the message names both), or it is missing (CATALOG_MISSING): see kvrt_store_repair. INCOMPATIBLE: a later kvrt
 *   wrote it (STORE_TOO_NEW), the directory is another program's (OTHER_PROGRAM), or the store is too old; it is left
 *   as it is. UNSUPPORTED: a network file system, or a store that was open at a fork. INVALID: others may write the
 *   directory or a file in it, or one of them is a link or not a regular file (UNSAFE_DIRECTORY). IO: the system failed;
 *   also PERMISSION, and READ_ONLY if a store is to be made on a read-only file system. NO_SPACE.
 * - Blocks: up to 5 seconds for other writers, and for the disk; after a crash for a look through the directory and the
 *   catalog. */
KVRT_API kvrt_status kvrt_store_open(kvrt_runtime* runtime, const char* path, size_t path_size, const kvrt_store_options* options,
                                     kvrt_store** out, kvrt_error* err);

/** Adds an owner to the handle. NULL is a no-op. */
KVRT_API void kvrt_store_retain(kvrt_store* store);

/** Takes an owner away; after the last one the handle is gone. NULL is a no-op. The directory closes when its sessions
 * are closed, too.
 * - Blocks: closing folds the catalog's log in: up to 0.1 s for writers, and the disk. */
KVRT_API void kvrt_store_release(kvrt_store* store);

/** Describes the store's contents and its size on disk.
 * - Statuses: IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_info(const kvrt_store* store, kvrt_store_props* out, kvrt_error* err);

/** Lists the saved sessions as they are when it is called, ordered by domain and name.
 * - `domain`: NULL: all domains; "" with size 0: the default one.
 * - `callback`: one ENTRY event for each; must not be NULL. It may change the store, and remove entries.
 * - Statuses: CANCELLED: by the callback. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_list(const kvrt_store* store, const char* domain, size_t domain_size, kvrt_event_fn callback, void* user,
                                     kvrt_error* err);

/** Gives the entry of one session, as kvrt_store_list does.
 * - Statuses: NOT_FOUND: no session of this name. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_stat(const kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                     kvrt_store_entry* out, kvrt_error* err);

/** Gives everything that the store keeps of a session, as JSON; its model is not needed:
 *
 *     {"name", "domain", "id", "revision", "model_id", "root": of its chain of keys, "block_tokens",
 *      "kv_formats": [of its KV on disk: "f16", or "int8/int4", K's and V's],
 *      "tokens":   [ids],
 *      "messages": [as they were given],
 *      "spans":    [of each message {"begin", "end", "generated"}],
 *      "chunks":   [of each block of tokens {"key", "begin", "end": of tokens, "bytes": of its KV on disk,
 *                   "by_number": {"1": bytes of the chunk of number 1, ...}}],
 *      "options":  {"no_prefix_cache", "tools", "documents", "variables", "template_time",
 *                   "grammar": null or {"kind": "none" (only calls or reasoning are bound), "gbnf", "json_schema" or
 *                   "json_schema_open", "begin", "source", "tool_choice", "tool_name", "parallel_calls_max",
 *                   "reasoning_tokens_max"}}}
 *
 * - `json`, capacity, needed: the text.
 * - Statuses: NOT_FOUND: no session of this name. CORRUPT: its record is damaged. INCOMPATIBLE: a newer kvrt saved
 *   it. IO. TOO_SMALL. */
KVRT_API kvrt_status kvrt_store_show(const kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                     char* json, size_t capacity, size_t* needed, kvrt_error* err);

/** Removes a saved session, and the chunks that no other session needs. Sessions that are open go on, and may save it
 * again.
 * - Statuses: NOT_FOUND: no session of this name. BUSY: STORE_LOCKED. NO_SPACE. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_remove(kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                       kvrt_error* err);

/** Renames a saved session from `from` to `to`, never over another. To sessions that are open under the old name it is
 * as if it had been removed.
 * - Statuses: NOT_FOUND: there is no `from`. CONFLICT: there is a `to` (NAME_TAKEN). BUSY: STORE_LOCKED. NO_SPACE.
 *   IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_rename(kvrt_store* store, const char* domain, size_t domain_size, const char* from, size_t from_size,
                                       const char* to, size_t to_size, kvrt_error* err);

/** Pins a saved session: it does not expire, and it loses its KV later than others.
 *
 * When a save finds no room, other saved sessions lose KV; they never lose tokens. First come sessions of the saver's
 * domain that are not pinned, then those of other domains that are not pinned, and last those of the saver's domain
 * that are pinned with a lower priority than the saved session has after this save (see kvrt_save_options.pin), the
 * lowest first. Among equals the session that was saved or resumed longest ago comes first.
 * - `pinned`: the priority, 1 to 255; 0: not pinned, and its expiry counts again.
 * - Statuses: NOT_FOUND: no session of this name. INVALID: above 255. BUSY: STORE_LOCKED. NO_SPACE. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_pin(kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                    uint32_t pinned, kvrt_error* err);

/** Sets when a saved session expires. An expired session that is not pinned is NOT_FOUND, and gc removes it. The next
 * save with kvrt_save_options.ttl_seconds sets this anew; one without leaves it as it is.
 * - `seconds`: from now, at most 100 years; 0: never.
 * - Statuses: NOT_FOUND: no session of this name. INVALID: more than 100 years. BUSY: STORE_LOCKED. NO_SPACE. IO.
 *   CORRUPT. */
KVRT_API kvrt_status kvrt_store_set_ttl(kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                        uint64_t seconds, kvrt_error* err);

/** The result of kvrt_store_gc. */
typedef struct kvrt_gc_report {
  uint32_t struct_size;      /**< sizeof this struct. */
  uint64_t sessions_removed; /**< Expired sessions that it removed. */
  uint64_t chunks_removed;   /**< Chunks that no session needs. */
  uint64_t segments_removed; /**< Files that it removed. */
  uint64_t bytes_freed;      /**< Bytes of these files. */
  double ms;                 /**< Milliseconds that it took. */
  uint64_t bytes_rewritten;  /**< Bytes of chunks that went from sparse segments into new ones. */
  /** Bytes of removed chunks in segments that stay: zeros now, whose space the file system has back. */
  uint64_t bytes_punched;
  /** Bytes of the catalog's log that stay, which may hold removed data; 0: none. They stay while another process reads
   * an older version of the catalog, or was stopped (SIGSTOP) while it read one. The next gc, save or close of this
   * handle finishes. */
  uint64_t log_bytes_kept;
} kvrt_gc_report;

/** Collects garbage. It removes expired sessions that are not pinned, chunks that no session needs, and segments in
 * which no chunk is left. It writes segments anew of which less than half is needed. Data that any process removed
 * before it is then in no file, with three exceptions: hashes of chunks and of names, the files that
 * kvrt_store_remove_old removes, and a log that log_bytes_kept reports.
 *
 * A save with durability TOKENS or KV does one slice of this work, too. When the wall clock has jumped since the last
 * save or gc (5 minutes back, or 7 days forth), a gc removes no expired session, and the log says so; the next gc does.
 * - `callback`: PROGRESS between slices of about 5 ms of work; a slice that ends in a commit or a file also waits for
 *   the disk. Wherever the callback stops it, the store is whole.
 * - `report`: may be NULL.
 * - Statuses: CANCELLED: by the callback. BUSY: STORE_LOCKED. NO_SPACE. IO. CORRUPT.
 * - Blocks: as long as the work takes; up to 5 seconds for a process that keeps the catalog's log from being folded
 *   in. */
KVRT_API kvrt_status kvrt_store_gc(kvrt_store* store, kvrt_event_fn callback, void* user, kvrt_gc_report* report, kvrt_error* err);

/** Removes the backups of migrations and repairs: catalog.db.old and the folders `damaged-<n>`. They still hold
 * sessions that were removed since.
 * - `*bytes`: the bytes that were in them; may be NULL.
 * - Statuses: BUSY: STORE_LOCKED. IO. */
KVRT_API kvrt_status kvrt_store_remove_old(kvrt_store* store, uint64_t* bytes, kvrt_error* err);

/** Reads and checks the whole store; it decodes the sessions' own records as a resume does. It takes little memory,
 * whatever the store claims to hold. It finds damage, not forgery. Others may use the store meanwhile.
 * - `callback`: PROGRESS in bytes while it reads, then one FAULT event for each fault.
 * - Statuses: CORRUPT: there are faults. CANCELLED: by the callback. IO: also if the directory was moved or deleted.
 * - Blocks: until all is read. */
KVRT_API kvrt_status kvrt_store_verify(kvrt_store* store, kvrt_event_fn callback, void* user, kvrt_error* err);

/** kvrt_repair_report.outcome: what a repair did. */
enum {
  KVRT_REPAIR_SOUND = 1,  /**< There was nothing to do. */
  KVRT_REPAIR_MENDED = 2, /**< Damaged chunks are forgotten. */
  KVRT_REPAIR_REBUILT = 3 /**< There is a new catalog. */
};

/** The result of kvrt_store_repair. */
typedef struct kvrt_repair_report {
  uint32_t struct_size;         /**< sizeof this struct. */
  uint32_t outcome;             /**< KVRT_REPAIR_... */
  uint64_t sessions_kept;       /**< Sessions under their names, with all their tokens and messages. */
  uint64_t sessions_with_holes; /**< Of those, sessions that lost chunks, which a resume computes again. */
  /** Sessions whose name is lost: tokens, without messages, under names like recovered-0123456789ab. */
  uint64_t sessions_recovered;
  uint64_t sessions_lost;   /**< Sessions that had a name, and of which too little is left; 0 if no record told of any. */
  uint64_t chunks_kept;     /**< Chunks that are sound. */
  uint64_t chunks_lost;     /**< Chunks that are not. */
  uint64_t bytes_kept;      /**< Bytes of chunks_kept. */
  double ms;                /**< Milliseconds that it took. */
  uint64_t chunks_orphaned; /**< Whole chunks of lost sessions: nothing tells their model and domain. */
} kvrt_repair_report;

/** Repairs a directory that does not open (CATALOG_CORRUPT, CATALOG_MISSING), or in which verify finds faults. It
 * makes a sound store of all that its checksums and keys can prove. Nobody may have the store open. A catalog that is
 * replaced goes into the folder `damaged-<n>` of the store, with segments that hold only orphaned chunks; the last
 * FAULT names that folder. A repair that was killed or failed can be called again.
 * - `callback`: FAULT: a fault, and its treatment. PROGRESS in bytes. A repair that the callback stops has changed
 *   nothing; one that has changed something already goes on to its end.
 * - `report`: may be NULL.
 * - Statuses: NOT_FOUND: no store is there. BUSY: somebody has it open. CANCELLED: by the callback. INCOMPATIBLE, and all
 *   is left as it is: a newer kvrt wrote the store; an older kvrt wrote it, and kvrt_store_open migrates it; or another
 *   program's files are there. INVALID: as kvrt_store_open (UNSAFE_DIRECTORY). UNSUPPORTED: a network file system, or a
 *   child of fork(2). NO_SPACE. IO.
 * - Blocks: until all of the directory is read, and written anew as far as it must be. */
KVRT_API kvrt_status kvrt_store_repair(kvrt_runtime* runtime, const char* path, size_t path_size, kvrt_event_fn callback, void* user,
                                       kvrt_repair_report* report, kvrt_error* err);

/** @} */

/** @defgroup kvrt_cancel Cancel
 * A cancel ends generations from outside. It fires once, for good. Give one cancel to any number of generations
 * (kvrt_generate_options.cancel), of any sessions and models. A generation keeps it from begin until its DONE was
 * taken or it failed.
 * @{ */

/** Makes a cancel that is not fired. It needs no runtime and no model.
 * - `*out`: the new cancel. The caller owns it, and releases it with kvrt_cancel_release.
 * - Statuses: none of its own. */
KVRT_API kvrt_status kvrt_cancel_open(kvrt_cancel** out, kvrt_error* err);

/** Adds an owner to the handle. NULL is a no-op. */
KVRT_API void kvrt_cancel_retain(kvrt_cancel* cancel);

/** Takes an owner away; after the last one the handle is gone, fired or not. NULL is a no-op. */
KVRT_API void kvrt_cancel_release(kvrt_cancel* cancel);

/** Fires it, for good. It cancels each generation that was begun with it, as kvrt_session_cancel does. It wakes threads
 * that wait in next, and calls `wake` on its own thread. A generation that is begun with it later ends at once and
 * computes nothing. It never fails; NULL is a no-op.
 * - Threads: any, also in callbacks (except log and wake); not in a signal handler.
 * - Blocks: it waits for no step. */
KVRT_API void kvrt_cancel_fire(kvrt_cancel* cancel);

/** 1: it was fired. 0: it was not; or it is NULL, or not a handle of this process. */
KVRT_API uint32_t kvrt_cancel_fired(const kvrt_cancel* cancel);

/** @} */

/** @defgroup kvrt_session Session
 * One conversation with a model. The calls come in this order: open and close; append; generate; fork, cut and read;
 * save and resume. Convention 8 says which threads may call; "Session states" says which call is BUSY or INVALID in
 * which state.
 * @{ */

/** kvrt_session_props.state: what a session does now ("Session states" says what it may do). */
enum {
  KVRT_STATE_IDLE = 1,       /**< It waits for calls. */
  KVRT_STATE_GENERATING = 2, /**< From begin until next has given DONE or a failure. */
  KVRT_STATE_SUSPENDED = 3,  /**< Without units: suspended, or resumed too long for the pool; it has computed nothing since. */
  KVRT_STATE_FAILED = 4      /**< Its logits were NaN or infinite. It can only be read. */
};

/** Tells the host that there is an event to take. It only signals (sets an event, writes to a pipe): it must not call
 * kvrt. */
typedef void (*kvrt_wake_fn)(void* user);

/** kvrt_session_options.foreign_kv: what resume does with saved KV of another arithmetic, a CPU's on a GPU or the
 * other way round. */
enum {
  KVRT_FOREIGN_KV_DEFAULT = 0,   /**< RECOMPUTE. */
  KVRT_FOREIGN_KV_RECOMPUTE = 1, /**< The tokens are computed again, and the session is as exact as any. */
  /** KV of the same format and block size is taken as it is. The answer may then differ from a computed one at a place
   * where two tokens are nearly as likely. Such a session is `inexact` for good, and no exact session shares its KV. */
  KVRT_FOREIGN_KV_ACCEPT = 2
};

/** Options of kvrt_session_open and kvrt_session_resume. kvrt_session_fork reads only the wake fields. */
typedef struct kvrt_session_options {
  uint32_t struct_size; /**< sizeof this struct. */
  /** 1: in memory, the session uses no KV of other sessions and offers them none. Its own KV comes back from the store,
   * whether it was saved with this option or without. Saving is as without the option: the store keeps a chunk of the
   * same tokens once in a domain, and sessions without this option find it there, whichever session saved it. To share
   * nothing at all, give the session a domain of its own. */
  uint32_t no_prefix_cache;
  /** Where the session is saved, and finds stored prefixes; NULL: nowhere. resume ignores it: its store is a
   * parameter. */
  kvrt_store* store;
  /** Sharing scope, up to 255 bytes of UTF-8. Nothing is shared between domains. NULL: the default one. Nothing is shared
   * between sessions with a store and those without, either: the model's contents, which name KV, are hashed only for a
   * store. */
  const char* domain;
  size_t domain_size; /**< Bytes of it. */
  /** A JSON array of objects, the template's variable `tools`; NULL: none. It is saved with the session; in resume NULL
   * keeps the saved ones. */
  const char* tools;
  size_t tools_size; /**< Bytes of it. */
  /** Called when next has something to give (an event or a failure) and had nothing before; NULL: none. It runs on the
   * thread that computes, cancels, accepts or begins, with no lock held. It may still come while close returns, and once
   * after it: wake_user_free says when it has ended. */
  kvrt_wake_fn wake;
  void* wake_user;             /**< Its user pointer. */
  kvrt_free_fn wake_user_free; /**< Called once with wake_user after the last call of wake; not if this call fails; NULL: none. */
  const char* documents;       /**< A JSON array, the template's variable `documents`. Saved as tools are. */
  size_t documents_size;       /**< Bytes of it. */
  /** A JSON object with more variables of the template, as in kvrt_template_options. Saved as tools are. strftime_now
   * gives the template the time when the session was opened, also after a resume; in a session that repair recovered,
   * that of the resume. */
  const char* variables;
  size_t variables_size; /**< Bytes of it. */
  /** Autosave: the library saves the session by itself, each time that one of the three options below says so. It needs
   * a store.
   *
   * The save has the tokens, the messages and the KV of full blocks. Its options are checkpoint's defaults. Its name is
   * that of the session's last save or resume; before there is one, autosave_name; with neither, nothing is saved.
   * close saves the rest that is not saved yet, with the KV of the last block. A failure is logged and stands in
   * kvrt_session_props.last_error_status (that of close is only logged); the next occasion tries again. The saves run on a
   * thread of the store's, which computes nothing, sleeps when nothing is due, and works in small portions while others
   * generate. */
  const char* autosave_name;
  size_t autosave_name_size; /**< Bytes of it. */
  uint32_t autosave_turn;    /**< 1: save when a generation is over and its DONE was taken; a prefill is one. */
  /** Save each time that the session has grown by this number of tokens, or of tokens whose KV is computed; 0: not. */
  uint32_t autosave_tokens;
  /** Save when nothing has happened to the session for this number of milliseconds, at most a day; 0: not. */
  uint32_t autosave_idle_ms;
  uint32_t foreign_kv; /**< KVRT_FOREIGN_KV_... */
} kvrt_session_options;

/** A session as it is now. Texts are NUL-terminated. */
typedef struct kvrt_session_props {
  uint32_t struct_size; /**< sizeof this struct. */
  uint32_t state;       /**< KVRT_STATE_... */
  uint64_t tokens;      /**< Tokens that it has. */
  /** Leading tokens that are computed and whose KV the session has (in layers with windows: the part that the next token
   * needs); with recurrent layers, those up to its last recurrent state. A generation first looks for more KV in the pool and the
   * store. */
  uint64_t kv_tokens;
  uint64_t kv_units;             /**< Units that it holds, shared ones in full. */
  uint64_t kv_bytes;             /**< Bytes of these. */
  uint64_t events_unread;        /**< Events that next has ready. */
  uint64_t messages;             /**< Messages of its conversation. */
  uint64_t revision;             /**< The revision of its name that it last saved or resumed; 0: it was never saved. */
  char id[40];                   /**< 32 hex digits. Suspend and resume keep it; a save under another name takes a new one. */
  char name[256];                /**< The name of the last save or resume; "": none. */
  kvrt_status last_error_status; /**< The status of the last generation or save that failed; KVRT_OK: none did. */
  int32_t last_error_detail;     /**< KVRT_DETAIL_... */
  uint32_t awaits_accept;        /**< 1: the generation waits for kvrt_session_accept. */
  uint32_t inexact;              /**< 1: it was resumed with KVRT_FOREIGN_KV_ACCEPT, and took KV of another arithmetic. */
  char last_error_message[512];  /**< The message of last_error_status. */
  /** The id of another process that has a session of this name open for saving; 0: none is known; -1: one whose id cannot
   * be seen from here, for example in another container. This call looks: ask after resume. The name is that of the last
   * save or resume; before there is one, autosave_name. Both may go on, but once one of the two has saved, a save of the
   * other is CONFLICT: a fork can be saved under another name. Not seen are sessions in a store that is open read-only
   * (they see others), sessions of kvrt 0.1, and sessions of another runtime of this process; when one of the last kind
   * closes, other processes no longer see this session either. */
  int32_t other_process;
} kvrt_session_props;

/** Opens an empty session.
 * - `*out`: the new session. The caller owns it, and closes it with kvrt_session_close.
 * - Statuses: UNSUPPORTED: the model's file has only a vocabulary. LIMIT: 65536 sessions of the model are open.
 *   INVALID: tools, documents or variables are not JSON of their kind; autosave without a store. IO: the model file
 *   cannot be read.
 * - Blocks: the first session with a store reads the whole model file. */
KVRT_API kvrt_status kvrt_session_open(kvrt_model* model, const kvrt_session_options* options, kvrt_session** out, kvrt_error* err);

/** Ends the session. NULL is a no-op. It cancels a call that another thread has on the session and waits for it. A
 * session with autosave is saved once more if it has changed; if you need the status, save it yourself before.
 *
 * In a callback of the session's own call close returns at once, and takes effect when that call returns.
 *
 * Deadlock: a callback may wait for another thread, such as a user interface's, to which it posts. Never close on that
 * thread: close would wait for the call, and the call for its callback. Such a thread fires the generation's `cancel`;
 * the thread of the call closes when the call is over.
 * - Threads: any; it must be the last use of the handle.
 * - Blocks: one step of a call that it cancels; a checkpoint of another thread; with autosave a save. */
KVRT_API void kvrt_session_close(kvrt_session* session);

/** Describes the session as it is now. It waits for no step.
 * - Statuses: none of its own. */
KVRT_API kvrt_status kvrt_session_info(const kvrt_session* session, kvrt_session_props* out, kvrt_error* err);

/** Appends tokens as they are. The next generation computes them.
 * - Statuses: INVALID: an id outside the vocabulary, or the session is FAILED. BUSY: it generates, or another call is
 *   inside. LIMIT: the model's context or the pool could never hold them. */
KVRT_API kvrt_status kvrt_session_append(kvrt_session* session, const int32_t* tokens, size_t count, kvrt_error* err);

/** Appends text, tokenized as kvrt_model_tokenize does. The first text of an empty session gets a BOS if the model asks
 * for it; if that text begins with a BOS of its own, the model gets two, and a WARN in the log says so. If the
 * vocabulary puts a space before a text (add_space_prefix), it does so here only if the text begins the session or
 * follows a control token.
 * - `flags`: KVRT_TEXT_SPECIAL.
 * - Statuses: INVALID: an unknown flag, or the session is FAILED. BUSY, LIMIT: as kvrt_session_append. */
KVRT_API kvrt_status kvrt_session_append_text(kvrt_session* session, const char* text, size_t text_size, uint32_t flags, kvrt_error* err);

/** The change of a session's tokens by a message. */
typedef struct kvrt_append_info {
  uint32_t struct_size; /**< sizeof this struct. */
  uint64_t appended;    /**< Tokens that were added at the end. */
  /** Tokens that were dropped before, because the template now renders the earlier conversation otherwise. */
  uint64_t rewritten;
  uint64_t rewritten_at; /**< Position of the first of these; with none, the session's length before the call. */
} kvrt_append_info;

/** Appends one message. The model's template renders it with the conversation before it; the next generation computes
 * its tokens. The next begin (but not a prefill) opens the assistant's turn; the generated answer becomes a message of
 * its own, which keeps its tokens while the template renders the same message; white space in a tool call may differ.
 * Text of a message that spells a control token becomes that token, as in other runtimes: take such spellings out of
 * text that you do not trust.
 *
 * Some templates (Llama 3.1 with tools) refuse a message before the first user's. It is kept without tokens; the user's
 * message spells both.
 *
 * The arguments of a message's tool_calls are an object, or JSON in a string (OpenAI's form). The template sees an object
 * in both cases, an empty one if there are none; the message stays as it was given. A string that is not a JSON object (of
 * a call that was cut) is rendered as it is, or as `{"arguments": string}` by a template that takes only objects.
 *
 * The call drops the tokens that belong to no message: those of append and append_text, and those generated before
 * there was a message. It counts them as rewritten.
 * - `message`: a JSON object: `{"role": "user", "content": "Hello"}`.
 * - `info`: may be NULL.
 * - Statuses: INVALID: not a JSON object with a role, or the template refuses it (TEMPLATE_ERROR), or the session is
 *   FAILED. LIMIT: as kvrt_session_append, also TEMPLATE_LIMIT. UNSUPPORTED: the model has no template, or its template
 *   uses a feature that kvrt lacks (the message names it). BUSY: as kvrt_session_append.
 * - Blocks: rendering, about 100 ms at most; up to three times as long with arguments that are not JSON objects; twice
 *   with the user's first message; if it rewrites, once more for each message from there on. */
KVRT_API kvrt_status kvrt_session_append_message(kvrt_session* session, const char* message, size_t message_size, kvrt_append_info* info,
                                                 kvrt_error* err);

/** Makes the conversation be these messages, for hosts that keep the list themselves. Leading messages that are equal
 * stay as they are, generated ones with their tokens. From the first difference on, the old messages are dropped and
 * the new ones appended.
 * - `messages`: a JSON array of messages.
 * - `info`: says at which position the tokens parted; may be NULL.
 * - Statuses: as kvrt_session_append_message.
 * - Blocks: as kvrt_session_append_message, for each new message. */
KVRT_API kvrt_status kvrt_session_set_messages(kvrt_session* session, const char* messages, size_t messages_size, kvrt_append_info* info,
                                               kvrt_error* err);

/** Which logits a prefill gives. */
enum {
  KVRT_LOGITS_NONE = 0, /**< None. */
  KVRT_LOGITS_LAST = 1, /**< A LOGITS event for the last position. */
  KVRT_LOGITS_ALL = 2   /**< A LOGITS event for every position. Nothing is reused then: all is computed. */
};

/** kvrt_generate_options.sampler: who chooses the tokens. */
enum {
  KVRT_SAMPLER_DEFAULT = 0, /**< kvrt, by the options. */
  KVRT_SAMPLER_HOST = 1     /**< The host: it answers each LOGITS event with kvrt_session_accept. */
};

/** kvrt_generate_options.grammar_kind: constrained output. A token is chosen only if the answer can still become what
 * the grammar says, and the end of the turn only if the answer is whole.
 *
 * Reasoning is not part of that answer. If the prompt has opened it, or the model opens it with its template's marker,
 * reasoning is unconstrained; the answer begins after its end marker and at most two line breaks. If the prompt has closed
 * it, there is none. A GBNF that itself begins with the marker that opens reasoning binds reasoning, too. */
enum {
  KVRT_GRAMMAR_DEFAULT = 0, /**< None. */
  /** Rules `name ::= ...` as in llama.cpp, beginning with `root`.
   * - Text matches neither control tokens nor those that the file calls unused.
   * - `<[1000]>` matches the token with that id, of whatever kind.
   * - `<think>` matches the token that is spelled so, with the brackets, of whatever kind.
   * - `!<think>` matches any token except that one, unused ones, and those that end the turn.
   * - A token that the vocabulary lacks is INVALID, with line and column. */
  KVRT_GRAMMAR_GBNF = 1,
  /** JSON text that is valid by this JSON schema: 2020-12, and what earlier drafts write in another way. docs/SCHEMAS.md
   * lists, with examples, which valid values kvrt never writes (members in another order than `properties`, other white
   * space, very long numbers and strings), and which schemas are LIMIT, or UNSUPPORTED by name with a JSON pointer.
   *
   * An object with properties or patternProperties, and without additionalProperties, has no others: JSON_SCHEMA_OPEN lets
   * them come. A name that the schema does not list may come twice. If no type is named, a value has one that the
   * keywords are about. Formats hold in every draft. */
  KVRT_GRAMMAR_JSON_SCHEMA = 2,
  /** The grammar of the session's last generation, from the place that its answer has reached: after max_tokens, a cancel
   * or a resume. Tokens that were appended since must fit it. INVALID: there was none, or its answer is whole. */
  KVRT_GRAMMAR_CONTINUE = 3,
  /** As JSON_SCHEMA; an object whose schema does not say additionalProperties may have other members. */
  KVRT_GRAMMAR_JSON_SCHEMA_OPEN = 4
};

/** kvrt_generate_options.tool_choice: which calls of the session's tools an answer has.
 *
 * A call is bound: it is written as the model's family writes calls, has the name of a tool, and arguments that fit the
 * tool's `parameters` as JSON_SCHEMA says. Only the order of members is another: in arguments, and in objects within them,
 * members come in any order, each that the schema names at most once, others anywhere. An object that names more than 64
 * keeps JSON_SCHEMA's order.
 *
 * If the family does not write arguments as JSON, kvrt never writes an argument that the family's parser would read as
 * another type. So no string has the marker that ends it; and if a string is one of several types, none reads as a number,
 * true, false or null. It works with every `reply`; if that names a family, the calls are that family's.
 *
 * What a session or a tool is like, and what begin does:
 *
 *     The session or a tool                           AUTO                 REQUIRED, NAMED      DEFAULT
 *     no tools                                        INVALID              INVALID              binds no call
 *     two tools of one name                           INVALID              INVALID              binds no call
 *     no tool of the name tool_name                                        NAMED: INVALID
 *     the template does not show calls                UNSUPPORTED          UNSUPPORTED          binds no call
 *     a name with other characters than letters,      UNSUPPORTED          UNSUPPORTED          binds no call
 *     digits and _-./; or, if calls are Python's,
 *     one that does not begin with a letter or _
 *     a schema that JSON_SCHEMA refuses               its status           its status           binds the arguments to an
 *                                                                                               object with members of
 *                                                                                               the schema's types
 *     a member's name that the model's syntax         UNSUPPORTED          UNSUPPORTED          the same
 *     cannot write, or a value of which it can
 *     write no constant
 *     a grammar_kind is set                           calls, or an         INVALID              no call, except what a
 *                                                     answer that fits                          GBNF writes
 *     a grammar_kind, a family whose calls are bare   UNSUPPORTED                               no call, except what a
 *     JSON, and a grammar that a call's beginning                                               GBNF writes
 *     fits
 *
 * NONE is never refused for any of these.
 *
 * Reasoning stays free, and comes first. With DEFAULT, AUTO and NONE and no grammar_kind the turn may end in it. It may
 * mention the marker of a call, unless the names of all tools have more than 16,384 bytes. If a tool's name follows the
 * marker, it is a call, which ends reasoning and is bound as any other.
 *
 * With DEFAULT and AUTO an answer may begin with a call that has no marker, if the family's calls are JSON objects with a
 * name: `{"name": "f", "arguments":` of a tool f is a call from there on, by itself, in a list, or within a fence of
 * Markdown (with `json`, or without); others may follow it. Llama 3 and Gemma may also write `"parameters":`, or a list
 * `[f(k="v")]`. Text that goes on in another way is not bound. */
enum {
  /** As AUTO, if the model's chat template itself writes a call in the way of the family that it shows, and the table
   * above does not say otherwise; else calls are not bound. */
  KVRT_TOOL_CHOICE_DEFAULT = 0,
  KVRT_TOOL_CHOICE_NONE = 1, /**< No calls: the markers by which they begin cannot come; what has none is text. */
  /** Text; from a call's first marker on, calls. A call ends the text, another may follow. */
  KVRT_TOOL_CHOICE_AUTO = 2,
  KVRT_TOOL_CHOICE_REQUIRED = 3, /**< One call or more, and nothing else. */
  KVRT_TOOL_CHOICE_NAMED = 4     /**< As REQUIRED, of the tool tool_name. */
};

/** kvrt_generate_options.reply: how an answer is split into content, reasoning and tool calls. AUTO goes by the chat
 * template. PLAIN to DEEPSEEK are for files whose template does not show tool calls: they name the way in which a family
 * of models writes them.
 *
 * A tool call that is malformed or cut short is content; one that was cut comes as a call when the answer goes on and
 * ends it. A session without tools has no tool calls, whatever its text. An argument that a model writes as bare text has
 * a type that the tool's schema allows, if it reads so, and else is a string. With a reply, a stop string does not reach
 * over a control token.
 *
 * The message that an answer becomes does not depend on `reply`: it has tool_calls if the template renders them, and
 * reasoning_content if the template would not find reasoning within the content. */
enum {
  KVRT_REPLY_DEFAULT = 0, /**< Not at all: there are only TOKEN events. */
  KVRT_REPLY_AUTO = 1,    /**< As the model's chat template shows tool calls and reasoning. */
  KVRT_REPLY_PLAIN = 2,   /**< No tool calls. */
  KVRT_REPLY_HERMES = 3,  /**< `<tool_call>{...}</tool_call>`: Hermes, Qwen 2.5 and 3. */
  KVRT_REPLY_LLAMA3 = 4,  /**< Llama 3. */
  KVRT_REPLY_MISTRAL = 5, /**< Mistral. */
  KVRT_REPLY_GEMMA = 6,   /**< Gemma. */
  KVRT_REPLY_DEEPSEEK = 7 /**< DeepSeek. */
};

/** Options of kvrt_session_begin and kvrt_session_generate.
 *
 * Speculation (draft, prediction, lookup; off by default) makes an answer faster and changes nothing of it. A step reads
 * the model's weights once, whether it computes one row of a session or several. So tokens are proposed that are likely to
 * follow, one step computes the rows of all of them, and the answer takes those that it would have had without: tokens,
 * text and logprobs are the same to the bit, also with a temperature, a grammar, penalties or a stop string. What was
 * proposed in vain leaves no KV and no event; `drafted` and the metric of steps' rows count it, and its rows may have
 * taken the place of KV that no session held. How many are proposed follows from measured times and from how many were
 * right, down to none where it does not pay, and while prompts of other sessions are computed.
 *
 * A step may give several tokens: those that it gave before a cancel, or before a callback stopped, are in the session,
 * though nobody took their events. Without speculation that is so if another thread computes.
 *
 * Where the grammar leaves one token it is proposed with any of the three. No token is proposed with sampler HOST,
 * emit_logits or prefill, for or by models with recurrent layers, and on CUDA where more rows would be computed by another kernel
 * (KVRT_DETERMINISM_STRICT has one for all). A draft that fails, or gets no memory in its pool, costs speed alone. The
 * steps of a draft come on top of the session's, for a step's time (step_ms_max) at most.
 *
 * The sampler applies, in this order: the grammar; logit_bias; repetition, frequency and presence penalties; temperature;
 * top_k; top_p; min_p. Ties go to the lowest token id. Bounds begin at 0 unless a field says otherwise. A value outside
 * its bounds is INVALID. */
typedef struct kvrt_generate_options {
  uint32_t struct_size;     /**< sizeof this struct. */
  uint32_t max_tokens;      /**< Tokens at most; 0: until the model ends its turn or the context is full. */
  float temperature;        /**< Up to 100; 0: greedy, the most probable token. */
  uint32_t top_k;           /**< Only this number of the most probable tokens; 0: all. */
  float top_p;              /**< Only the fewest tokens that hold this share of the probability, up to 1; 0: all. */
  float min_p;              /**< Only tokens of at least min_p times the best one's probability, up to 1; 0: all. */
  float repetition_penalty; /**< Over the session's tokens, as in transformers, up to 100; 0 and 1: none. */
  /** For each time that this generation has given the token, as in OpenAI's API, -100 to 100; 0: none. */
  float frequency_penalty;
  float presence_penalty;             /**< Once if this generation has given the token, as in OpenAI's API, -100 to 100; 0: none. */
  uint32_t penalty_window;            /**< The three penalties look at this number of the session's last tokens; 0: all. */
  const kvrt_token_value* logit_bias; /**< Each value is added to the token's logit; -INFINITY bans the token. NULL: none. */
  size_t logit_bias_count;            /**< Entries of it, at most the vocabulary's size. */
  /** A draw depends only on seed and position. 0: the seed is drawn if temperature is not 0; the report has it. */
  uint64_t seed;
  const int32_t* stop_tokens; /**< Tokens that end the generation; NULL: none. The one that came stays in the session. */
  size_t stop_token_count;    /**< Entries of it, at most the vocabulary's size. */
  /** Texts that end the generation: up to 16 of 1 to 256 bytes, each ended by a NUL; NULL: none. Text that may be the
   * beginning of one is held back until that is known; then it comes with a later TOKEN, or with DONE. A text that
   * matched is not given, nor is anything after it. */
  const char* stop_strings;
  size_t stop_strings_size;      /**< Bytes of stop_strings, the NULs included. */
  uint32_t ignore_eos;           /**< 1: go on past tokens that end the turn. */
  uint32_t top_logprobs;         /**< Alternatives that come with each TOKEN, at most 64; 0: none. */
  uint32_t sampler;              /**< KVRT_SAMPLER_... */
  uint32_t emit_logits;          /**< 1: a LOGITS event before every TOKEN. */
  uint32_t no_generation_prompt; /**< 1: do not open the assistant's turn after append_message. */
  uint32_t all_or_nothing;       /**< 1: a generation that is cancelled or fails leaves the session as it was before begin. */
  uint32_t prefill;              /**< 1: choose no token, end with PREFILLED: as kvrt_session_prefill, but through next. */
  uint32_t logits;               /**< With prefill: KVRT_LOGITS_... */
  /** KVRT_GRAMMAR_... INVALID with ignore_eos and with prefill. With sampler HOST, LOGITS has -INFINITY for tokens that
   * do not fit. */
  uint32_t grammar_kind;
  uint32_t reply;      /**< KVRT_REPLY_... */
  const char* grammar; /**< The GBNF or JSON schema, UTF-8; NULL with the other kinds. */
  size_t grammar_size; /**< Bytes of it. */
  kvrt_cancel* cancel; /**< Ends the generation when it is fired, or was; kept until DONE. NULL: none. */
  /** KVRT_TOOL_CHOICE_... Not REQUIRED or NAMED with a grammar_kind. These four fields are INVALID with CONTINUE (the
   * answer goes on with those that it began with), ignore_eos and prefill. */
  uint32_t tool_choice;
  uint32_t parallel_calls_max; /**< Calls of one answer at most; 0: no limit. */
  /** Tokens of reasoning at most; then its end is the only text that may come, and content or calls follow. 0: no limit. */
  uint32_t reasoning_tokens_max;
  const char* tool_name; /**< With NAMED: the tool's name, UTF-8. Else NULL. */
  size_t tool_name_size; /**< Bytes of it. */
  /** A smaller model that proposes tokens (see Speculation), of the session's runtime. Each id that both vocabularies have
   * is the same token in both, else INCOMPATIBLE; ids that a file marks as unused do not count. INVALID: it is the
   * session's own model, or of another runtime. UNSUPPORTED: a file with only a vocabulary. The session keeps it until it
   * begins a generation without it, or is closed. It computes in a session of its own, in its own pool, on the thread that
   * computes this session; that one gives its units to the host's sessions first and is never saved, and kvrt_model_props
   * does not count it. Where the draft would take more time for the whole text than it saves, it reads only the text's
   * last part. NULL: none. */
  kvrt_model* draft;
  /** Text that the answer is likely to repeat, as a file that it edits, UTF-8, at most 1 MiB (else LIMIT): lookup proposes
   * from it, too. Not NULL sets lookup. NULL: none. */
  const char* prediction;
  size_t prediction_size;    /**< Bytes of it. */
  uint32_t lookup;           /**< 1: propose tokens that followed the last ones where these came before (see Speculation). */
  uint32_t draft_tokens_max; /**< Tokens proposed for a step at most, up to 32; 0: 16. */
  /** Propose that many where they are known, though they cost more time than they save; for tests and measurements. Up to
   * draft_tokens_max. 0: as it pays. */
  uint32_t draft_tokens_min;
  uint32_t reserved; /**< Must be 0: a later version may have an option here. */
} kvrt_generate_options;

/** Computes the appended tokens: begin with `prefill` set, and next until DONE. Call it after an append, to have the
 * prompt's KV before it is needed: begin and generate compute a prompt by themselves. It opens no turn of the
 * assistant. It takes no kvrt_cancel; begin does. If the model has recurrent layers and no logits are asked for, the last
 * token waits for what comes after it: the report counts those before.
 * - `logits`: KVRT_LOGITS_... They are given as they are, also NaN or infinite ones.
 * - `callback`: PROGRESS in tokens, LOGITS as asked, and DONE.
 * - `report`: may be NULL. It is filled when the call succeeds, and when it is CANCELLED.
 * - Statuses: INVALID: the session is FAILED, or has no tokens. BUSY: it generates, or another call is inside.
 *   CANCELLED: by the callback or by kvrt_session_cancel; the computed part stays. LIMIT: the pool cannot hold it; one
 *   that never could is told before any session loses a unit. NO_MEMORY. DEVICE.
 * - Blocks: until DONE. */
KVRT_API kvrt_status kvrt_session_prefill(kvrt_session* session, uint32_t logits, kvrt_event_fn callback, void* user, kvrt_report* report,
                                          kvrt_error* err);

/** Starts a generation. It computes and loads nothing. The steps do, which next (of any session of the model) or
 * kvrt_model_step runs.
 * - Statuses: INVALID: an option; a malformed grammar (GRAMMAR_ERROR); the template refuses the messages
 *   (TEMPLATE_ERROR); the session is FAILED, or has no tokens. BUSY: it generates, or another call is inside. LIMIT:
 *   the session, or the turn that it opens, does not fit the context or the pool; TEMPLATE_LIMIT; GRAMMAR_LIMIT;
 *   a prediction of more than 1 MiB. INCOMPATIBLE: the draft has another vocabulary. UNSUPPORTED: a keyword of a schema, a
 *   feature of the template, or calls that kvrt cannot bind (KVRT_TOOL_CHOICE_...): the message names it.
 * - Blocks: rendering the template, about 100 ms at most, and as kvrt_session_append_message if it rewrites; compiling
 *   a grammar, about 1 s at most; tokenizing a prediction, about 1 s at most; comparing the vocabularies with a draft's, the
 *   first time; a step of the draft that the last generation had, if this one has another. */
KVRT_API kvrt_status kvrt_session_begin(kvrt_session* session, const kvrt_generate_options* options, kvrt_error* err);

/** Gives the next event of a generation, and computes as needed.
 *
 * A failure of the generation is the status of next, once, in place of DONE: it ends the generation. Other statuses
 * change nothing, and the session is GENERATING as before. NO_MEMORY may be either: kvrt_session_info gives the state.
 * - `event`: NONE: nothing came in time. IDLE: the session does not generate.
 * - `timeout_ms`: milliseconds to wait for an event; below 0: as long as it takes; 0: only take an event that is there,
 *   never compute.
 * - Statuses that end the generation: INVALID: logit_bias and grammar leave no token. LIMIT: the pool cannot hold the
 *   session, or the grammar is too ambiguous to follow (GRAMMAR_LIMIT). DEVICE: the device failed, or NUMERIC.
 *   NO_MEMORY: if the session is IDLE after it.
 * - Statuses that change nothing: INVALID: kvrt_session_accept is due (STATE), or `event` is wrong. BUSY: another call
 *   is inside. NO_MEMORY: if the session is GENERATING after it: call again, or cancel.
 * - Blocks: timeout_ms, and then the end of a step that it computes. */
KVRT_API kvrt_status kvrt_session_next(kvrt_session* session, kvrt_event* event, int32_t timeout_ms, kvrt_error* err);

/** Says which token follows the position of the last LOGITS event, with sampler HOST. Its TOKEN event, and DONE if it
 * ends the generation, come from next.
 * - Statuses: INVALID: no token is asked for, or this one is outside the vocabulary or the grammar.
 * - Threads: any, also in a callback of kvrt_session_generate. */
KVRT_API kvrt_status kvrt_session_accept(kvrt_session* session, int32_t token, kvrt_error* err);

/** Generates: begin, and next until DONE.
 * - `callback`: TOKEN, PROGRESS, LOGITS and DONE, and with `reply` the answer's parts. When it stops the call it gets
 *   no DONE, and the tokens so far stay; a cancel from elsewhere gives it DONE. With sampler HOST it must not be NULL,
 *   and calls kvrt_session_accept at each LOGITS before it returns: else the generation ends, and the call is INVALID.
 * - `report`: may be NULL. It is filled when the call succeeds, and when it is CANCELLED.
 * - Statuses: as kvrt_session_begin, and as those of kvrt_session_next that end the generation. CANCELLED: by the
 *   callback, kvrt_session_cancel or the option `cancel`. "Session states" says what a failure leaves.
 * - Blocks: until DONE. */
KVRT_API kvrt_status kvrt_session_generate(kvrt_session* session, const kvrt_generate_options* options, kvrt_event_fn callback, void* user,
                                           kvrt_report* report, kvrt_error* err);

/** Ends the session's generation or prefill within one step, at its last token. It can be cancelled until its DONE was
 * taken. Without a generation it is a no-op.
 * - Statuses: none of its own.
 * - Threads: any, but not in a signal handler. It waits for nothing. */
KVRT_API kvrt_status kvrt_session_cancel(kvrt_session* session, kvrt_error* err);

/** Makes a copy that shares all KV blocks with the session; a block is copied when one of them first writes to it. The
 * copy is not saved, has a new id, and is SUSPENDED if the session is. It takes over the options of the session, except
 * autosave_name. If layers are recurrent, the recurrent state here stays in the pool's cache, as at a boundary, also
 * within a block. Either of the two may come back to this place, and the first to write copies it. Tokens that the session loaded from
 * the store before the fork count as reused_disk in the next report of both.
 * - `options`: only wake, wake_user and wake_user_free are read; may be NULL.
 * - `*out`: the new session. The caller owns it, and closes it with kvrt_session_close.
 * - Statuses: INVALID: the session is FAILED. BUSY: it generates, or another call is inside. LIMIT: 65536 sessions of
 *   the model are open. */
KVRT_API kvrt_status kvrt_session_fork(kvrt_session* session, const kvrt_session_options* options, kvrt_session** out, kvrt_error* err);

/** Keeps the first `count` tokens, the messages that end within them, and, of an answer that goes past `count`, the part
 * that its remaining tokens say.
 *
 * Their KV stays. With windows it stays whole only if `count` is less than a window before the end, with recurrent layers
 * never. The next generation then computes the tokens after the last boundary before `count` again, and reports
 * KVRT_REUSE_WINDOW. There is a boundary in each 1024 tokens or more often, as far as the pool has room for them.
 * - Statuses: INVALID: it has fewer tokens, or it is FAILED. BUSY: it generates, or another call is inside. */
KVRT_API kvrt_status kvrt_session_truncate(kvrt_session* session, uint64_t count, kvrt_error* err);

/** Marks a boundary at the last end of a block within the first `tokens` tokens: a truncate, a fork or another session
 * with the same tokens goes on from there, and computes none of the tokens before. Call it for what the host appends as
 * tokens or text, before that is computed: at the end of a system prompt that sessions are to share, and at each place
 * that the user may rewind to. kvrt makes boundaries by itself: at the end of each message and of what the template has
 * before the user's first words, at saves, at forks, at the place where a prompt parts from one whose KV is there, and
 * after 1024 tokens without one.
 *
 * Windows and recurrent states that only boundaries keep take at most a quarter of the pool (all of it if no layer sees
 * everything), or what one boundary takes if that is more; those used least recently are given up. `kvrt plan` prints
 * what one takes; a log line (INFO) of model_open says how many the pool keeps, if these are few.
 *
 * A state of this table is a recurrent one:
 *
 *     The model has            kept in memory                            stored by a save
 *     only layers that see     nothing: it goes on from any token        all full blocks
 *       everything
 *     layers with windows      the window before the boundary; one       the window of each boundary
 *                              that was given up does not come back
 *     recurrent layers         the state at the boundary; one that the   the states of the boundaries that this call made
 *                              session has gone past does not come       and that the pool still has; of the others the
 *                              back. A state serves new tokens after     first, and as many as leave 1024 tokens between (a
 *                              it: for its last token's logits a         state may be larger than the KV of all tokens since
 *                              session goes on from the boundary         the last one); and the one at the session's end,
 *                              before. So, if `tokens` is a multiple     until the next save of the name
 *                              of the block's, also the state a block
 *                              before. At a fork the state itself
 *
 * With no_prefix_cache nothing is marked: the session keeps only its last two windows, or its last recurrent state.
 *
 * What is stored stays as long as the tokens before it are those of some saved session, and the disk has room. So a save
 * after each turn makes boundaries last: they come back from the store when the pool has given them up.
 * - `tokens`: 0: all that it has.
 * - Statuses: INVALID: it has fewer tokens, or it is FAILED. BUSY: it generates, or another call is inside. LIMIT: the
 *   pool has no room for what a boundary keeps beside the session as it is (if that is too long for the pool: beside its
 *   first `tokens`); nothing is marked. */
KVRT_API kvrt_status kvrt_session_mark(kvrt_session* session, uint64_t tokens, kvrt_error* err);

/** Drops the tokens [from, to) and the messages in them. The tokens after them move to lower positions and are computed
 * again. In a conversation of messages, tokens that only join the last dropped message to the next one (a newline) are
 * dropped too.
 *
 * To forget the oldest turns, erase from the end of the system message to the beginning of the first message to keep:
 * see kvrt_session_message.
 * - Statuses: INVALID: the range ends past the session, or cuts a message in two, or the session is FAILED. BUSY: it
 *   generates, or another call is inside.
 * - Blocks: rendering, about 100 ms at most. */
KVRT_API kvrt_status kvrt_session_erase(kvrt_session* session, uint64_t from, uint64_t to, kvrt_error* err);

/** Gives all token ids of the session.
 * - `tokens`, capacity, needed: the ids.
 * - Statuses: TOO_SMALL. */
KVRT_API kvrt_status kvrt_session_tokens(const kvrt_session* session, int32_t* tokens, size_t capacity, size_t* needed, kvrt_error* err);

/** Gives the bytes of the tokens [from, to). A range may begin or end within a character. Bytes that never become a
 * character stay as they are; TOKEN events have U+FFFD for them.
 * - `to`: at most the session's length; UINT64_MAX: its length.
 * - `flags`: KVRT_TEXT_SPECIAL.
 * - `text`, capacity, needed: the bytes.
 * - Statuses: INVALID: an unknown flag, or a range past the end. TOO_SMALL. */
KVRT_API kvrt_status kvrt_session_text(const kvrt_session* session, uint64_t from, uint64_t to, uint32_t flags, char* text, size_t capacity,
                                       size_t* needed, kvrt_error* err);

/** A message's place in its session. */
typedef struct kvrt_message_props {
  uint32_t struct_size; /**< sizeof this struct. */
  uint32_t generated;   /**< 1: the model's own turn. */
  uint64_t begin;       /**< The position of its first token. Between two messages there may be tokens that open a turn. */
  uint64_t end;         /**< The position after its last token. */
  /** 1: the model ended it: it is generated, and its last token ends a turn. A generated message with 0 was cut off, by
   * a limit, a stop string, a cancel or a kill, or is being generated: the next begin goes on with it. */
  uint32_t ended;
} kvrt_message_props;

/** Gives message `index`, from 0, and its place.
 * - `out`: may be NULL. It is filled when the call succeeds, not when it is TOO_SMALL.
 * - `json`, capacity, needed: the message as JSON. With all three NULL or 0 and an `out`, the call fills only `out`.
 * - Statuses: NOT_FOUND: the session has fewer messages. TOO_SMALL. */
KVRT_API kvrt_status kvrt_session_message(const kvrt_session* session, uint64_t index, kvrt_message_props* out, char* json, size_t capacity,
                                          size_t* needed, kvrt_error* err);

/** kvrt_save_options.durability: which part of a save is safely on the disk when it returns. */
enum {
  KVRT_DURABILITY_DEFAULT = 0, /**< TOKENS. */
  KVRT_DURABILITY_NONE = 1,    /**< As PROCESS. */
  KVRT_DURABILITY_PROCESS = 2, /**< The save survives the process, not a power cut. */
  KVRT_DURABILITY_TOKENS = 3,  /**< The tokens survive a power cut; KV may have to be computed again. */
  KVRT_DURABILITY_KV = 4       /**< The saved KV survives it too. */
};

/** kvrt_save_options.codec: how a save stores the KV chunks that it writes. Chunks that the store has stay as they
 * are. */
enum {
  KVRT_CODEC_DEFAULT = 0, /**< ZSTD. */
  /** As they are, which loads sooner. A last block that is not full is packed all the same, so that its empty slots take
   * no room. */
  KVRT_CODEC_NONE = 1,
  /** Packed (level 1): KV in F16, INT8 and FP8 by a seventh, in BF16 by a third, in INT4 not at all. */
  KVRT_CODEC_ZSTD = 2
};

/** Options of kvrt_session_checkpoint and kvrt_session_suspend. */
typedef struct kvrt_save_options {
  uint32_t struct_size; /**< sizeof this struct. */
  uint32_t durability;  /**< KVRT_DURABILITY_... */
  uint32_t overwrite;   /**< 1: replace another session of this name, or a newer save of this one, instead of CONFLICT. */
  uint32_t pin;         /**< 1 to 255: pin the saved session with this priority (see kvrt_store_pin); 0: leave it as it is. */
  /** It expires this number of seconds after this save, at most 100 years; 0: leave it as it is (a new session never
   * expires). kvrt_store_set_ttl with 0 takes it away. */
  uint64_t ttl_seconds;
  uint32_t codec;    /**< KVRT_CODEC_... */
  uint32_t reserved; /**< Must be 0: a later version may have an option here. */
} kvrt_save_options;

/** The result of a save. */
typedef struct kvrt_save_report {
  uint32_t struct_size; /**< sizeof this struct. */
  uint64_t revision;    /**< As in kvrt_store_entry. */
  uint64_t tokens;      /**< Tokens that were saved. */
  /** KV chunks of this session: those on disk, windows at boundaries among them, and those that are missing. */
  uint64_t chunks;
  uint64_t chunks_written; /**< Of these, chunks that the store did not have. */
  uint64_t bytes_written;  /**< Bytes of chunks_written. */
  double ms;               /**< Milliseconds that the save took. */
  /** Of `chunks`, those that the store lacks now, for lack of room, or because their KV was not in memory. A resume
   * computes them again. Windows at boundaries before the session's end do not count. */
  uint64_t chunks_missing;
} kvrt_save_report;

/** Saves the session under `name` in its store. The session stays as it is, in memory. When it returns OK the session
 * is on disk, as the durability says. When it fails all is as before, except that other saved sessions may have lost KV
 * to make room.
 *
 * It saves all tokens and messages, the KV of full blocks, and at times that of the last block (below). A session that
 * generates is saved as a cancel at that moment would leave it; the generation goes on meanwhile, and no step waits for
 * the save. Changes of the session during the save are not saved.
 *
 * If the last block is not full, a checkpoint writes its KV only after that grew by n tokens beyond what the store has,
 * n = max(8, block_tokens / 4). One checkpoint then writes at most 4 times the new KV, and a resume computes at most n
 * tokens again, the last token included, which has no KV yet. That holds with KVRT_DURABILITY_KV too. suspend, and close
 * with autosave, write all KV of the last block. With recurrent layers a checkpoint, suspend or close also writes the
 * recurrent state, whatever its size; an autosave does not, and a resume then goes on from the last boundary, at most 1024 tokens
 * before.
 *
 * If the store has no room for KV, the save keeps the tokens, and as much KV as fits from the first block on: see
 * chunks_missing. It is NO_SPACE if there is no room for the tokens, and with KVRT_DURABILITY_KV if there is none for KV. A
 * session that was resumed with another KV format or block size keeps the KV it was saved with, which the report counts,
 * until it has a block of its own, or KV of as many tokens.
 * - `name`, name_size: 1 to 255 bytes of UTF-8.
 * - `report`: may be NULL.
 * - Statuses: CONFLICT: another session has the name (NAME_TAKEN), or another handle saved it since (REVISION): see
 *   overwrite. INVALID: the session has no store, or is FAILED; no name. NO_SPACE. BUSY: STORE_LOCKED. IO: also a store
 *   that is open read-only. CORRUPT. DEVICE: with KVRT_DURABILITY_KV, the device does not give its KV.
 * - Threads: any, at any time. Saves of one session wait for each other.
 * - Blocks: one step of this session, other saves of it, up to 5 seconds for other writers, and the disk. */
KVRT_API kvrt_status kvrt_session_checkpoint(kvrt_session* session, const char* name, size_t name_size, const kvrt_save_options* options,
                                             kvrt_save_report* report, kvrt_error* err);

/** Saves the session as kvrt_session_checkpoint does, and then gives its units back, also those whose KV the store
 * lacks (chunks_missing). The handle stays valid: the next call that computes loads the KV again.
 * - Statuses: as kvrt_session_checkpoint. BUSY also: it generates, or another call is inside.
 * - Blocks: as kvrt_session_checkpoint. */
KVRT_API kvrt_status kvrt_session_suspend(kvrt_session* session, const char* name, size_t name_size, const kvrt_save_options* options,
                                          kvrt_save_report* report, kvrt_error* err);

/** Opens a saved session, in this process or another, and loads its KV. The session is IDLE then. Chunks that are
 * damaged or missing are holes, which the next step computes. A session that is longer than the pool holds is SUSPENDED
 * then, and nothing is loaded: see "Session states". A session that is open elsewhere is opened all the same:
 * kvrt_session_props.other_process tells of another process.
 * - `store`: the store that it was saved in; options->store is ignored.
 * - `options`: the domain must be the one that it was saved in. tools, documents and variables that are NULL stay as
 *   they were saved; all other options are as given here.
 * - `callback`: PROGRESS in chunks.
 * - `report`: may be NULL. prompt_tokens is the session's length, reused_memory and reused_disk count the tokens whose
 *   KV came back, prefilled those that remain to be computed; reuse_stopped and reuse_stopped_at say why. All else is
 *   0.
 * - `*out`: the new session. The caller owns it, and closes it with kvrt_session_close.
 * - Statuses: INVALID: as kvrt_session_open. NOT_FOUND: no session of this name, or it has expired. INCOMPATIBLE: it
 *   was made with another model (MODEL_MISMATCH), or a newer kvrt saved it. CORRUPT: the record of its tokens is
 *   damaged. LIMIT: 65536 sessions of the model are open. UNSUPPORTED: the model's file has only a vocabulary.
 *   CANCELLED: by the callback. BUSY: STORE_LOCKED. IO.
 * - Blocks: until its chunks are read; the first session with a store reads the whole model file. */
KVRT_API kvrt_status kvrt_session_resume(kvrt_model* model, kvrt_store* store, const char* name, size_t name_size,
                                         const kvrt_session_options* options, kvrt_event_fn callback, void* user, kvrt_report* report,
                                         kvrt_session** out, kvrt_error* err);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
