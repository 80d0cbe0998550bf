/* kvrt: LLM inference in your process, with conversations that survive it.
 *
 * A session keeps the KV state of a conversation in paged blocks and saves it, deduplicated and compressed, in a store on disk. An
 * application can suspend a session, be killed, start again, and go on with the same bits, without computing the prompt again.
 *
 *   kvrt_runtime* rt;  kvrt_model* model;  kvrt_store* store;  kvrt_session* chat;
 *   kvrt_runtime_open(NULL, &rt, NULL);
 *   kvrt_model_open(rt, "model.gguf", 10, NULL, NULL, NULL, &model, NULL);
 *   kvrt_store_open(rt, "memory", 6, NULL, &store, NULL);
 *   if (kvrt_session_resume(model, store, "ann", 3, NULL, NULL, NULL, NULL, &chat, NULL) == KVRT_NOT_FOUND) {
 *     kvrt_session_options o;  KVRT_INIT(&o);  o.store = store;
 *     kvrt_session_open(model, &o, &chat, NULL);
 *   }
 *   kvrt_session_append_message(chat, json, strlen(json), NULL, NULL);
 *   kvrt_session_generate(chat, NULL, print_token, NULL, NULL, NULL);
 *   kvrt_session_suspend(chat, "ann", 3, NULL, NULL, NULL);
 *
 * CONVENTIONS
 *
 *  1. Names. kvrt_<noun>_<verb>; constants KVRT_*. Five nouns: a runtime (device, threads, log) opens models (weights, pool of KV
 *     blocks, scheduler) and stores (directories); a session is one conversation with a model; a cancel ends generations. Children keep
 *     their parents alive, so the order of closing is free.
 *  2. Lifetime. Shared nouns are opened, retained and released. A session has one owner: it comes from open, resume or fork and goes
 *     with close. NULL, or a handle of another kind, is a no-op for release and close, which never fail. A call keeps what it works on
 *     until it returns: a handle may be released while it runs, in its callback or by another thread (a session: see close). After its
 *     last release a handle must not be used.
 *  3. Status. Every call that can fail returns a kvrt_status, and each says below what to do next. The numbers never change. INVALID (a
 *     wrong argument, a handle that is none), UNSUPPORTED (a struct's unknown tail, a handle from before a fork), NO_MEMORY and INTERNAL
 *     may come from any call; the others stand at each.
 *  4. Detail. A call that can fail takes a kvrt_error last, which may be NULL, and fills it when it fails: class, detail, errno or SQLite
 *     code, and a message that says what, where, expected and found. It belongs to the caller and to no thread, so it serves hosts whose
 *     tasks move between threads. kvrt_last_error copies the calling thread's last error, for who passed none. A call that succeeds
 *     leaves both alone, and so do retain, release and close. When a call fails its outputs are untouched, but for `needed` (6) and the
 *     report of a generation that was CANCELLED. No message and no line of the log has a word of what the model is given: messages,
 *     tools, documents, variables, texts. They may quote what the host wrote: names, a grammar or schema, and the literals of a template,
 *     with "..." for what they were joined to.
 *  5. Structs. struct_size comes first, in options and outputs; set it to sizeof the struct (KVRT_INIT does). Options: NULL is all
 *     defaults and zero is the default in every field. A shorter struct (an older header) has zeros in what it lacks; in a longer one
 *     the unknown tail must be zero, else UNSUPPORTED. Outputs: the library writes at most struct_size bytes; in a struct that it owns
 *     (an event of a callback, its report and entry) struct_size is the library's. Fields are only ever appended.
 *  6. Memory. The library never returns memory to free. Variable output takes (buffer, capacity, &needed): `needed` is always set on
 *     success and on TOO_SMALL; a NULL buffer with capacity 0 asks for the size. Inputs are copied. Strings are UTF-8 with a length;
 *     paths are bytes, as the system has them.
 *  7. Callbacks come before outputs: 0 goes on, anything else stops the call with CANCELLED. They run on the thread inside the call, with
 *     no lock held, and may call anything but the same session (cancel, accept, checkpoint and what reads excepted; others: BUSY). They
 *     return: no exception, longjmp or end of the thread passes through kvrt. A callback that is kept (log, wake) must not call kvrt,
 *     finalizers included, and has a user_free, called once when it can fire no more, also where there is no callback; not if the call
 *     that takes it fails.
 *  8. Threads. A const handle may be used by any number of threads at once, and so may a runtime, a model, a store and a cancel. A
 *     session takes one call at a time, else BUSY; cancel, accept, checkpoint and what reads (info, tokens, text, message) are free of
 *     that.
 *  9. After fork(2) a call in the child with a handle of its parent gives UNSUPPORTED and touches nothing; it may open its own, but no
 *     store that was open at the fork (UNSUPPORTED). The child's first call closes its copies of the parent's lock and data files (not
 *     SQLite's, which lock nothing in a child); else exec or exit does, and until then it holds the locks of a parent that was killed.
 * 10. A good guest. kvrt never prints, exits, aborts or handles signals, keeps no global state but each thread's last error and a note of
 *     its open descriptors (9), none of which is 0 to 2 (where those are closed, SQLite leaves /dev/null in them), burns no CPU when
 *     idle, and leaves the floating-point mode as it found it. It reads and writes numbers the same under every locale. A call works on
 *     a thread with 96 KiB of stack; what a callback needs comes on top. When the system gives no memory a call says NO_MEMORY and leaves its handle as it was, or, of a generation, ends it at its last
 *     token.
 * 11. Exactness. On the CPU the logits of a position depend on the model, the KV format and the tokens before it, and on nothing else:
 *     not on batching, chunking, block size, threads, instruction set, prefix hits, fork, or suspend and resume. On CUDA that holds with
 *     KVRT_DETERMINISM_STRICT, and by default for suspend and resume: restored KV has the bits that it was saved with.
 * 12. Versions. SemVer. The library's soname is libkvrt.so.0, and from 0.2.0 on all that has it only grows: a program runs with every later
 *     0.x. Before, what changes has another symbol version. With a library that lacks what it uses, a program is refused when it starts.
 *     Enums may grow, in any version: ignore an event whose type you do not know, take an unknown status for a failure, an unknown reason
 *     for the end of a generation, an unknown detail for none. The store has its own format number; a store of a later format is refused
 *     and left as it is.
 *
 * SESSION STATES AND CALLS
 *
 *                                    IDLE      GENERATING    SUSPENDED     FAILED
 *   append*, set_messages             ok        BUSY          ok            INVALID
 *   truncate, erase                   ok        BUSY          ok            INVALID
 *   prefill, begin, generate          ok        BUSY          ok (warms)    INVALID
 *   accept                            INVALID   ok if asked   INVALID       INVALID
 *   next                              IDLE      event         IDLE          IDLE
 *   fork                              ok        BUSY          ok            INVALID
 *   checkpoint                        ok        ok            ok            INVALID
 *   suspend                           ok        BUSY          ok            INVALID
 *   tokens, text, message, info       ok        ok            ok            ok
 *   cancel                            no-op     DONE          no-op         no-op
 *   close                             ok        cancels       ok            ok
 *
 * A session is GENERATING from begin (or inside prefill) until next has given DONE or a failure. After a failure it is IDLE, keeps the tokens
 * that it has, and can go on: after NO_MEMORY, DEVICE, LIMIT or INVALID. FAILED is for NaN or infinite logits (detail NUMERIC), where KV that
 * was reused was computed again first, once a generation: its tokens can be read, and no more. With all_or_nothing no session becomes FAILED:
 * it is IDLE, as it was before begin. kvrt_session_info has the error.
 *
 * WHO COMPUTES
 *
 * kvrt has no engine thread. A step serves every generating session of a model at once, decodes and prompt chunks together, and runs on
 * the thread of whoever asks: next (or generate, prefill) of any of its sessions, or kvrt_model_step in a host with a loop of its own. A
 * host that must not block calls begin, kvrt_model_step and next with timeout 0, and is told by `wake` when there is something to take.
 * A session that nobody reads pauses at 64 unread events, and its blocks can be lent to others.
 *
 * WHAT A CALL WAITS FOR
 *
 * No call waits for another session to end, and none but these waits for more than a moment:
 *   generate, prefill             until DONE; cancel ends them within a step
 *   next                          timeout_ms, and then for the end of a step that it computes; 0: nothing
 *   model_step                    ms, or one step
 *   begin                         rendering the template; compiling a grammar that is none of the model's last 16
 *   append_message, set_messages  rendering the template, once per new message
 *   checkpoint, suspend           one step of this session; other saves of it; then the store, as what writes to it
 *   close                         one step of a call that it cancels; a checkpoint of another thread; with autosave, a save
 *   resume                        reading its chunks, as long as that takes; its callback can stop it
 *   model_open                    reading the file, likewise
 *   what writes to a store        its other writers, at most 5 s, then BUSY; then the disk, as long as the durability asks
 *   store_open                    likewise; after a crash, a look through the directory and the catalog
 *   gc, verify, repair            as long as they take; their callbacks can stop them
 *   other calls to a store        reading the catalog
 *   release                       the last of a store: folding its log in, as a write; the last of a runtime: its threads
 * The first session of a model that has a store reads the whole model file once, to know it again; the store keeps the result. A step is
 * step_ms_max by measured speed, one row at least.
 */
#ifndef KVRT_H
#define KVRT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KVRT_VERSION_MAJOR 0
#define KVRT_VERSION_MINOR 1
#define KVRT_VERSION_PATCH 0
#define KVRT_ABI_VERSION 0

#if defined(__GNUC__) || defined(__clang__)
#define KVRT_API __attribute__((visibility("default")))
#else
#define KVRT_API
#endif

/* Zeroes a struct and sets its struct_size: kvrt_model_options o; KVRT_INIT(&o); Sugar: by hand does as well. */
#define KVRT_INIT(p) ((void)memset((p), 0, sizeof *(p)), (void)((p)->struct_size = (uint32_t)sizeof *(p)))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvrt_runtime kvrt_runtime;
typedef struct kvrt_model kvrt_model;
typedef struct kvrt_store kvrt_store;
typedef struct kvrt_session kvrt_session;
typedef struct kvrt_cancel kvrt_cancel;

/* ---- status ------------------------------------------------------------------------------------------------------------------ */

typedef int32_t kvrt_status;
enum {
  KVRT_OK = 0,
  KVRT_INVALID = 1,       /* the caller's mistake: mend the call */
  KVRT_NOT_FOUND = 2,     /* no such file, session or key: create it or name another */
  KVRT_CONFLICT = 3,      /* the name is taken or was saved by another handle since: resume it, take another name, or overwrite */
  KVRT_BUSY = 4,          /* in use: by another call, a generation or another process; try again when that is over */
  KVRT_CANCELLED = 5,     /* stopped by kvrt_session_cancel, kvrt_cancel_fire or a callback */
  KVRT_NO_MEMORY = 6,     /* the system gave no memory: release something, or lower kv_bytes_max */
  KVRT_TOO_SMALL = 7,     /* the buffer is smaller than *needed: call again with a larger one */
  KVRT_LIMIT = 8,         /* past a limit, which the message names, and the option that raises it where there is one */
  KVRT_CORRUPT = 9,       /* a file is damaged: get it again; for a store see kvrt_store_repair */
  KVRT_INCOMPATIBLE = 10, /* sound, but of another model or a later format: open it with what made it */
  KVRT_IO = 11,           /* the system failed to read or write; os_code is errno (EMFILE: raise RLIMIT_NOFILE) or SQLite's extended code */
  KVRT_NO_SPACE = 12,     /* the disk, a quota, RLIMIT_FSIZE or disk_bytes_max is full; nothing was lost: free space and call again */
  KVRT_DEVICE = 13,       /* the compute device failed */
  KVRT_UNSUPPORTED = 14,  /* this build or version cannot; the message names the thing */
  KVRT_INTERNAL = 15      /* a defect of kvrt: please report the message */
};

/* Finer reasons, in kvrt_error.detail. New ones may be added. */
enum {
  KVRT_DETAIL_NONE = 0,
  KVRT_DETAIL_FORMAT = 1, /* bytes are not what the format says */
  KVRT_DETAIL_CATALOG_CORRUPT = 2,
  KVRT_DETAIL_CATALOG_MISSING = 3,
  KVRT_DETAIL_STORE_TOO_NEW = 4,
  KVRT_DETAIL_FOREIGN_PROGRAM = 5, /* the directory or database belongs to another program */
  KVRT_DETAIL_READ_ONLY = 6,
  KVRT_DETAIL_PERMISSION = 7,
  KVRT_DETAIL_UNSAFE_DIRECTORY = 8, /* others can write it or own it; or a file in it is a link, theirs, or none at all */
  KVRT_DETAIL_STORE_LOCKED = 9,     /* another process is writing the store, or repairs it */
  KVRT_DETAIL_GENERATION = 10,      /* saved under this name since this handle last saw it */
  KVRT_DETAIL_NAME_TAKEN = 11,
  KVRT_DETAIL_MODEL_MISMATCH = 12,
  KVRT_DETAIL_FORKED = 13,
  KVRT_DETAIL_REENTRANT = 14,
  KVRT_DETAIL_CONCURRENT = 15,
  KVRT_DETAIL_TEMPLATE_ERROR = 16,
  KVRT_DETAIL_TEMPLATE_LIMIT = 17,
  KVRT_DETAIL_STATE = 18,         /* the call does not fit the session's state */
  KVRT_DETAIL_NUMERIC = 19,       /* NaN or infinite logits */
  KVRT_DETAIL_STRUCT_TAIL = 20,   /* an option that this library does not know is set */
  KVRT_DETAIL_GRAMMAR_ERROR = 21, /* the grammar or schema is malformed, or nothing fits it */
  KVRT_DETAIL_GRAMMAR_LIMIT = 22  /* the grammar or schema exceeds a limit */
};

/* What a failed call says. A call whose `err` has a struct_size below 4 or above 65536 is INVALID and does nothing. */
typedef struct kvrt_error {
  uint32_t struct_size;
  kvrt_status status;
  int32_t detail;
  int32_t os_code;
  char message[1008]; /* NUL-terminated, cut at whole code points, by struct_size too */
} kvrt_error;

/* major << 16 | minor << 8 | patch of the library that runs, which may be newer than the header. Any thread. */
KVRT_API uint32_t kvrt_version(void);
/* KVRT_ABI_VERSION of the library that runs: a binding compares it at load. Any thread. */
KVRT_API uint32_t kvrt_abi_version(void);
/* "OK", "INVALID", ...; a number of no class is "UNKNOWN". Static text, never NULL. Any thread. */
KVRT_API const char* kvrt_status_name(kvrt_status status);
/* The calling thread's last error, whatever `err` its call had; status KVRT_OK when it had none. A successful call leaves it alone. A
 * thread of the system: where a host's tasks move between threads (Go, async runtimes), pass an `err` instead. INVALID: out is NULL or
 * has no struct_size. */
KVRT_API kvrt_status kvrt_last_error(kvrt_error* out);
/* sizeof a struct of this header in the library, by its name ("kvrt_event"); 0: it has none of that name. A binding that lays out structs
 * by itself compares at load. */
KVRT_API uint32_t kvrt_struct_size(const char* name);
/* offsetof a field of such a struct ("kvrt_event", "text"); UINT32_MAX: it has none of that name. kvrt.abi.json (its path: pkg-config
 * --variable=abi kvrt) describes all of this header, for those who generate a binding. */
KVRT_API uint32_t kvrt_struct_offset(const char* name, const char* field);

/* ---- events and reports ------------------------------------------------------------------------------------------------------ */

enum {                          /* kvrt_event.type */
       KVRT_EVENT_NONE = 0,     /* next: nothing came before the timeout; the session generates on */
       KVRT_EVENT_TOKEN = 1,    /* token, position, text (whole code points, may be empty), logprob */
       KVRT_EVENT_PROGRESS = 2, /* done of total: tokens in prefill, bytes in model_open, chunks in resume, verify and gc */
       KVRT_EVENT_LOGITS = 3,   /* logits[logits_count] of `position`: the prediction of position + 1 */
       KVRT_EVENT_DONE = 4,     /* reason, report; text: what a stop string held back, and did not come to be one (may be empty) */
       KVRT_EVENT_ENTRY = 5,    /* store_list: entry */
       KVRT_EVENT_FAULT = 6,    /* store_verify, store_repair: text says where and what */
       KVRT_EVENT_IDLE = 7,     /* next: the session does not generate, and nothing will come */
       /* With the option `reply`, after the TOKEN events that they come from: */
       KVRT_EVENT_CONTENT = 8,   /* text: more of the answer itself, */
       KVRT_EVENT_REASONING = 9, /* of what the model thought before it, */
       KVRT_EVENT_TOOL_CALL = 10 /* or a whole call as JSON: {"name": string, "arguments": object}, "id" where the model gave one */
};

enum { /* why a generation ended */
       KVRT_REASON_NONE = 0,
       KVRT_REASON_EOS = 1,  /* the model ended its turn; that token is in the session */
       KVRT_REASON_STOP = 2, /* a stop string or stop token */
       KVRT_REASON_MAX_TOKENS = 3,
       KVRT_REASON_CONTEXT_FULL = 4, /* truncate, start another session, or, where the pool is what is full, raise kv_bytes_max */
       KVRT_REASON_CANCELLED = 5,
       KVRT_REASON_PREFILLED = 6, /* the end of prefill */
       KVRT_REASON_FAILED = 7     /* of no DONE: next gives the failure as its status, and kvrt_session_info has it */
};

enum {                                 /* why no more of the prompt was reused */
       KVRT_REUSE_ALL = 0,             /* nothing stopped it */
       KVRT_REUSE_NEW_TOKENS = 1,      /* the tokens from here on were never computed under this root */
       KVRT_REUSE_DIFFERENT_TOKEN = 2, /* a resident block of the same parent has another token here */
       KVRT_REUSE_NOT_STORED = 3,      /* the store knows the tokens but never had their KV */
       KVRT_REUSE_EVICTED = 4,         /* computed before in this session; the pool needed the blocks */
       KVRT_REUSE_DAMAGED = 5,         /* the chunk on disk was damaged, missing or could not be read: the log says which; at 0 with
                                           `recomputed`: what was reused made logits that are not finite, so all was computed again */
       KVRT_REUSE_OTHER_NUMERICS = 6   /* the snapshot's KV is of another format, numerics or block size: its tokens are computed again */
};

/* The usage of one prefill or generation. prompt_tokens == reused_memory + reused_disk + prefilled, exactly. */
typedef struct kvrt_report {
  uint32_t struct_size;
  uint32_t reason;        /* KVRT_REASON_* */
  uint64_t prompt_tokens; /* tokens in the session when it began; 0 if the context was full */
  uint64_t reused_memory; /* of these: KV was in this session or shared from the pool */
  uint64_t reused_disk;   /*           KV came from the store (since the last report) */
  /* Computed (or, cancelled, left to compute); at least 1 where logits were needed: the last token then runs. */
  uint64_t prefilled;
  uint64_t generated;           /* tokens sampled, the end token included */
  uint32_t reuse_stopped;       /* KVRT_REUSE_* */
  uint32_t stop_tokens;         /* STOP by a string: tokens at the end to truncate to drop it */
  uint64_t reuse_stopped_at;    /* first position that was not reused; prompt_tokens when all was */
  uint64_t seed;                /* the seed in use, also when it was drawn */
  double queue_ms;              /* begin to the first step that had a row of this session */
  double ttft_ms;               /* begin to the first token */
  double prefill_ms, decode_ms; /* first step to first token; first token to last */
  double tpot_ms;               /* decode_ms per token after the first */
  double prefill_tokens_per_s, decode_tokens_per_s;
  uint64_t kv_blocks, kv_bytes;  /* of this session at the end; shared blocks count in full */
  uint64_t pool_bytes_begin;     /* of the model's pool in use by open sessions, shared blocks once: when it began, */
  uint64_t pool_bytes_prefilled; /* at the first token (or the end of the prefill), */
  uint64_t pool_bytes_end;       /* and at the end */
  uint64_t recomputed;           /* rows run again: blocks were lent to others meanwhile, or reused KV made NaN or infinite logits */
} kvrt_report;

typedef struct kvrt_store_entry {
  uint32_t struct_size;
  uint32_t pinned;             /* its priority; 0: not pinned */
  char name[256], domain[256]; /* NUL-terminated */
  char id[40];                 /* 32 hex digits */
  uint64_t generation;         /* counts the saves of this name */
  uint64_t tokens;
  uint64_t chunks, chunks_missing; /* KV chunks on disk; those a resume would compute again */
  uint64_t bytes, bytes_shared;    /* of the chunks on disk; of them, used by other sessions too */
  int64_t created_unix_ms, saved_unix_ms;
  int64_t expires_unix_ms; /* 0: never */
} kvrt_store_entry;

/* A token with a number: its natural log probability, or its bias. */
typedef struct kvrt_token_value {
  int32_t token;
  float value;
} kvrt_token_value;

/* Pointers live until the next call on the session, or until the callback returns. */
typedef struct kvrt_event {
  uint32_t struct_size;
  uint32_t type; /* KVRT_EVENT_* */
  int32_t token;
  uint32_t reason;
  uint64_t position;
  const char* text;
  size_t text_size;
  double logprob; /* natural logarithm of the token's probability before temperature and truncation */
  uint64_t done, total;
  const float* logits;
  size_t logits_count; /* the vocabulary's size */
  const kvrt_report* report;
  const kvrt_store_entry* entry;
  const kvrt_token_value* top; /* TOKEN with top_logprobs: the most probable tokens, the first first */
  size_t top_count;
} kvrt_event;

typedef int32_t (*kvrt_event_fn)(void* user, const kvrt_event* event);

/* ---- runtime ----------------------------------------------------------------------------------------------------------------- */

enum { KVRT_LOG_DEFAULT = 0 /* WARN */, KVRT_LOG_ERROR = 1, KVRT_LOG_WARN = 2, KVRT_LOG_INFO = 3, KVRT_LOG_DEBUG = 4 };
enum { KVRT_ISA_DEFAULT = 0 /* the best that passes its self-check */, KVRT_ISA_SCALAR = 1, KVRT_ISA_AVX2 = 2, KVRT_ISA_AVX512 = 3 };

/* Where a runtime computes: on one device. Several runtimes may have a device each; one model over several devices is UNSUPPORTED. CUDA is a
 * library of its own, libkvrt_cuda.so, loaded when a runtime first asks for it and kept from then on: libkvrt needs no driver, nor any file
 * of NVIDIA's. A device's arithmetic is its own (numerics): KV that another one computed is not used, its tokens are computed again
 * (REUSE_OTHER_NUMERICS). */
enum {
  KVRT_DEVICE_DEFAULT = 0, /* CPU */
  KVRT_DEVICE_CPU = 1,
  /* UNSUPPORTED where libkvrt_cuda.so, the driver or the device is missing: the message says which, and where it was looked for.
   * INCOMPATIBLE: a libkvrt_cuda.so of another version, or another library. DEVICE: the device is there and failed. */
  KVRT_DEVICE_CUDA = 2,
  KVRT_DEVICE_AUTO = 3 /* CUDA where it opens, else the CPU, and the log says why (INFO) */
};

/* Which bits CUDA promises. A device has kernels for few rows and for many, which round differently. Restored KV is exact in each. */
enum {
  KVRT_DETERMINISM_DEFAULT = 0, /* BY_CLASS */
  /* A row depends on no other row of its step, but on how many there are: few or many. What else generates, and how a prompt is cut into
   * steps (prefill_chunk, step_ms_max, a prefix that is found), may change the last bits of a prompt's KV. */
  KVRT_DETERMINISM_BY_CLASS = 1,
  /* All of 11 above, as on the CPU: every row takes the kernels for few. Prompts are computed 16 rows at a time, and so read each weight that
   * much oftener; decodes do as ever. It has a numerics of its own. */
  KVRT_DETERMINISM_STRICT = 2,
  KVRT_DETERMINISM_NONE = 3 /* kernels may take the rows of a step together where that is faster */
};

/* What CUDA rounds a prompt's activations and weights to where they are multiplied: in steps of more than 128 tokens; fewer, and decodes, are
 * as ever. FP8 halves what is read of F16, and it rounds each number to 3 bits of fraction: on a model of 135M parameters logits moved by 7 % of
 * the largest and perplexity by 4 %, so try it on your own prompts. Its KV is other KV (numerics: "cuda-1-sm90-f8"), never taken for F16's nor
 * the other way round. It needs compute capability 8.9 and cuBLASLt, else UNSUPPORTED: the message says which is missing. Matrices that are F32 in
 * the file, or whose sides are no multiple of 16, stay F16. INVALID with STRICT, which has no such steps. Its speed was not measured on a device
 * yet. */
enum { KVRT_GEMM_DEFAULT = 0 /* F16 */, KVRT_GEMM_F16 = 1, KVRT_GEMM_FP8 = 2 /* E4M3, a scale for each row */ };

/* May come on any thread and must not call kvrt. */
typedef void (*kvrt_log_fn)(void* user, int32_t level, const char* text, size_t text_size);
typedef void (*kvrt_free_fn)(void* user);

typedef struct kvrt_runtime_options {
  uint32_t struct_size;
  uint32_t threads;   /* compute threads, the caller's included; 0: the CPUs that affinity and cgroup leave */
  uint32_t isa;       /* KVRT_ISA_* of the CPU; one that the machine lacks is UNSUPPORTED; INVALID with DEVICE_CUDA */
  uint32_t log_level; /* KVRT_LOG_* */
  kvrt_log_fn log;    /* NULL: silent */
  void* log_user;
  kvrt_free_fn log_user_free; /* called once with log_user when log can come no more; not if open fails */
  uint32_t device;            /* KVRT_DEVICE_* */
  uint32_t device_index;      /* which of the driver's CUDA devices, from 0; past the last: UNSUPPORTED. INVALID with the CPU, but for 0 */
  const char* cuda_library;   /* path of libkvrt_cuda.so; NULL: the one beside libkvrt, else as the dynamic linker finds it */
  size_t cuda_library_size;
  uint32_t determinism; /* KVRT_DETERMINISM_* of CUDA; nothing to the CPU */
  uint32_t prompt_gemm; /* KVRT_GEMM_*. INVALID with the CPU, but for DEFAULT; nothing to the CPU that AUTO ends with */
} kvrt_runtime_options;

typedef struct kvrt_runtime_props {
  uint32_t struct_size;
  uint32_t threads;
  char device[16];      /* "cpu", "cuda" */
  char isa[16];         /* the kernel table in use: "avx2", "sm_90" */
  char numerics[16];    /* version of the arithmetic's definition: "cpu-3", "cuda-1-sm90", "cuda-1s-sm90" (strict), "cuda-1-sm90-f8" */
  char isa_tables[128]; /* every table built for the CPU, each with "ok", "not on this machine" or "differs from scalar" */
  char libraries[128];  /* "sqlite 3.40.1, zstd 1.5.4, ..." */
  /* Of CUDA; empty and 0 on the CPU: */
  char device_name[64];        /* the device, as its maker calls it */
  uint64_t device_memory;      /* its memory in bytes, */
  uint64_t device_memory_free; /* and what of it is free now */
  /* At open, a line each: versions of driver and runtime, of cuBLASLt or why there is none, every device there is, libkvrt_cuda.so's path. */
  char devices[1024];
} kvrt_runtime_props;

/* Opens a runtime. UNSUPPORTED where the process carries an SQLite, zstd, PCRE2 or libsodium of its own that took the place of those this library was
 * linked with: the message names both, their versions and files. A library that holds them (KVRT_STATIC_DEPS: the wheel, the tarball)
 * minds no others. *out is the caller's to release. Any thread. The kernels check themselves first (milliseconds); a CUDA driver
 * starts. LIMIT: more than 256 threads. UNSUPPORTED: an isa or a device that this machine or build lacks. INCOMPATIBLE: a
 * libkvrt_cuda.so of another version. DEVICE: the device failed. */
KVRT_API kvrt_status kvrt_runtime_open(const kvrt_runtime_options* options, kvrt_runtime** out, kvrt_error* err);
/* One more owner of the handle. Any thread; NULL is a no-op. */
KVRT_API void kvrt_runtime_retain(kvrt_runtime* runtime);
/* One owner less; after the last the handle is gone. What its models, stores and sessions need of it lives as long as they do. Any
 * thread. */
KVRT_API void kvrt_runtime_release(kvrt_runtime* runtime);
/* What the runtime computes with. Any thread; waits for nothing. */
KVRT_API kvrt_status kvrt_runtime_info(const kvrt_runtime* runtime, kvrt_runtime_props* out, kvrt_error* err);
/* Compute threads from the next step on, 1 to 256; 0: what affinity and cgroup leave. Any thread, at any time; waits for nothing. LIMIT:
 * more than 256. */
KVRT_API kvrt_status kvrt_runtime_set_threads(kvrt_runtime* runtime, uint32_t threads, kvrt_error* err);

/* ---- model ------------------------------------------------------------------------------------------------------------------- */

/* What K and V are rounded to when they are stored. Bytes of a token: 2 * layers * kv_heads * head_dim elements of 2, 2, 4, 1 and 1 bytes;
 * INT8 and FP8 have 4 more for each layer and KV head: a scale of K and one of V. BF16 has the range of F32 and an eighth of F16's precision;
 * INT8 halves memory, snapshots and what a decode reads, at a loss that is small beside that of 4-bit weights, yet not nothing. FP8 (e4m3)
 * halves the same and loses more, with SmolLM2 a divergence 13 times INT8's: take INT8, unless it is this form that you are after, in which
 * each element has a precision relative to itself and K is not transformed. KV of one format is never used for another: a session that is
 * resumed with another keeps its tokens, and its KV is computed again (REUSE_OTHER_NUMERICS). */
enum { KVRT_KV_DEFAULT = 0 /* F16 */, KVRT_KV_F16 = 1, KVRT_KV_BF16 = 2, KVRT_KV_F32 = 3, KVRT_KV_INT8 = 4, KVRT_KV_FP8 = 5 };

/* Which directory keeps weights from one open to the next, where cache_dir names none. The environment is not read in a program that has more
 * rights than its user (setuid). */
enum {
  KVRT_CACHE_DEFAULT = 0, /* what the environment variable KVRT_CACHE names; none where it is unset or empty */
  KVRT_CACHE_NONE = 1,    /* none, whatever the environment says; INVALID with a cache_dir */
  /* As DEFAULT, but where KVRT_CACHE is unset the user's: $XDG_CACHE_HOME/kvrt/weights, else $HOME/.cache/kvrt/weights, made with mode 0700.
   * Relative paths there count as unset. None where both are, where it is another user's, or on a file system of a network. For programs
   * of a user; what keeps this one from serving is logged as INFO. */
  KVRT_CACHE_USER = 2
};

typedef struct kvrt_model_options {
  uint32_t struct_size;
  uint32_t kv_format;     /* KVRT_KV_* */
  uint32_t block_tokens;  /* tokens per KV block: 16, 32, 64, 128 or 256; 0: 32 */
  uint32_t prefill_chunk; /* prompt tokens per step at most, 1 to 512; 0: 512. Smaller cancels sooner */
  /* The pool of KV blocks, reserved at open, at most the machine's memory; 0: 4 contexts, at most a quarter of what is free. */
  uint64_t kv_bytes_max;
  /* A step takes on as many prompt tokens as fit this time by measured speed: by what tokens cost of CPU time, and what share of it the
   * machine gave lately. One token at least, and half the time of a step without any prompt where that alone fills it (a crowd that decodes,
   * a large model's weights). What the system takes for memory on its first use comes on top: see kv_populate.
   * 0: 50. But where no other session of the model generates and no step of another model waits, a prompt has steps of up to 500, or of
   * what its caller waits where that is less (the timeout of next, the ms of model_step; 50 at least): so long cancel, close and who begins
   * meanwhile may wait. And where nobody decodes, a step has 32 tokens, or 64 where it may take 500 ms, as far as 500 ms of CPU time compute
   * them. */
  uint32_t step_ms_max;
  uint32_t from_fd; /* 1: read the file from `fd`, not from a path, which only names it in messages then and may be NULL */
  int32_t fd;       /* open for reading, seekable; stays the caller's, who may close it when model_open has returned */
  /* 1: the whole pool is given memory at open, NO_MEMORY where less is free; 0: its pages on their first use, which can double a step's
   * time on a virtual machine. */
  uint32_t kv_populate;
  uint64_t fd_offset, fd_size; /* the GGUF's bytes within it; size 0: to the end of the file */
  /* A directory that keeps the weights as the CPU has them in memory, made if it is missing; NULL: see `cache`. The first open of a model
   * writes a file of about its size there; later ones map it, which is faster than laying out, and processes share its pages. Of processes that
   * open at once, one writes; the others wait for it, half a minute and a second for each 50 MB at most. Every byte is checked against
   * checksums at open. That it belongs to this model is known from the model file's inode, size, times and header and a sample of its tensors,
   * not from reading it all: a copy of the model has a file of its own. Only its owner may be able to write the directory; no file in it may be
   * changed while a model uses it, any may be removed. Whatever is wrong with it is logged (WARN) and costs time alone. Not used for a part of
   * a file (fd_size), nor on CUDA. */
  const char* cache_dir;
  size_t cache_dir_size;
  uint32_t cache; /* KVRT_CACHE_* */
  uint32_t reserved;
  /* Of the files in that directory, together; 0: a tenth of the file system, at most 20 GiB. To make room for a new one those go that no
   * process maps, the least recently used first. None is written that would leave less than a twentieth of the file system free, at most
   * 1 GiB, or that finds no room. */
  uint64_t cache_bytes_max;
} kvrt_model_options;

typedef struct kvrt_model_props {
  uint32_t struct_size;
  uint32_t has_weights; /* 0: a vocabulary-only file: tokenize, detokenize and apply_template work, sessions do not */
  char architecture[32];
  char name[128];
  uint32_t vocab_size, context_length;
  uint32_t layers, heads, kv_heads, head_dim, width;
  int32_t bos_token, eos_token; /* -1: none */
  uint32_t add_bos;             /* append_text to an empty session adds BOS */
  uint32_t has_template;
  uint32_t block_tokens;
  uint64_t file_bytes, weight_bytes; /* on disk; resident */
  uint64_t kv_bytes_per_token, block_bytes;
  uint64_t blocks, blocks_free, blocks_cached; /* of the pool: all; unused; idle but indexed, given up when needed */
  uint64_t sessions;                           /* open now */
  double load_ms;
  uint64_t scratch_bytes; /* activations and logits of a step; CUDA: with what its kernels and cuBLASLt work in, which models share */
  uint32_t step_ms_max;
  uint32_t kv_format; /* KVRT_KV_*, never DEFAULT */
} kvrt_model_props;

/* Opens a GGUF file, which must not change while the model is open. The callback sees PROGRESS in bytes. Unknown architectures, tensor
 * types, tokenizers and split files are UNSUPPORTED by name. *out is the caller's to release. Any thread. NOT_FOUND: no such file.
 * CORRUPT: no sound GGUF file. LIMIT: kv_bytes_max is more than the machine has, or less than two blocks. NO_MEMORY. IO. DEVICE.
 * CANCELLED: by the callback. */
KVRT_API kvrt_status kvrt_model_open(kvrt_runtime* runtime, const char* path, size_t path_size, const kvrt_model_options* options,
                                     kvrt_event_fn callback, void* user, kvrt_model** out, kvrt_error* err);
/* One more owner of the handle. Any thread; NULL is a no-op. */
KVRT_API void kvrt_model_retain(kvrt_model* model);
/* One owner less; after the last the handle is gone, and the weights go with the model's last session. Any thread. */
KVRT_API void kvrt_model_release(kvrt_model* model);
/* What the model is, and how full its pool is now. Any thread; waits for no step. */
KVRT_API kvrt_status kvrt_model_info(const kvrt_model* model, kvrt_model_props* out, kvrt_error* err);

enum {
  KVRT_TEXT_SPECIAL = 1, /* tokenize: text that spells a special token becomes it; detokenize: special tokens are spelled out */
  KVRT_TEXT_BOS = 2      /* tokenize: begin with the model's BOS token, if it has one */
};

/* Bytes that are no valid UTF-8 become the vocabulary's byte tokens, and come back as the same bytes; where it has none, INVALID. Any
 * thread; waits for nothing. LIMIT: more than 64 MiB of text. TOO_SMALL. */
KVRT_API kvrt_status kvrt_model_tokenize(const kvrt_model* model, const char* text, size_t text_size, uint32_t flags, int32_t* tokens,
                                         size_t capacity, size_t* needed, kvrt_error* err);
/* The tokens' bytes; a run that ends within a code point ends so. Where the vocabulary puts a space before a text (add_space_prefix),
 * the first token's leading space is left out. Any thread; waits for nothing. INVALID: an id outside the vocabulary. TOO_SMALL. */
KVRT_API kvrt_status kvrt_model_detokenize(const kvrt_model* model, const int32_t* tokens, size_t count, uint32_t flags, char* text,
                                           size_t capacity, size_t* needed, kvrt_error* err);

typedef struct kvrt_template_options {
  uint32_t struct_size;
  uint32_t no_generation_prompt; /* 1: do not open the assistant's turn */
  const char* source;            /* a Jinja template to use instead of the model's; then the model may be NULL */
  size_t source_size;
  const char* tools; /* a JSON array for the template's variable `tools` */
  size_t tools_size;
  const char* documents; /* a JSON array for its variable `documents` */
  size_t documents_size;
  const char* variables; /* a JSON object: more variables by name, {"enable_thinking": false}; they may replace bos_token and eos_token */
  size_t variables_size;
} kvrt_template_options;

/* Renders a JSON array of messages ({"role": ..., "content": ...}) with the chat template. Not NUL-terminated. Any thread; at most 100
 * ms. INVALID: no JSON array of messages, or the template refuses them or does not parse (TEMPLATE_ERROR). LIMIT: it takes too long or
 * too much (TEMPLATE_LIMIT). UNSUPPORTED: the model has no template, or it uses what kvrt does not know. TOO_SMALL. */
KVRT_API kvrt_status kvrt_model_apply_template(const kvrt_model* model, const char* messages, size_t messages_size,
                                               const kvrt_template_options* options, char* text, size_t capacity, size_t* needed,
                                               kvrt_error* err);

/* Computes for up to `ms` milliseconds: runs steps for all generating sessions until none can go on or the time is up (0: one step). It
 * returns within ms, or one step (step_ms_max, 50) where that is longer; a step that another thread computes is waited for, and counts.
 * When a session fails, its next says so. runnable (may be NULL): sessions that could go on now. For hosts with a loop of their own;
 * events are taken with next and timeout 0. Any thread. */
KVRT_API kvrt_status kvrt_model_step(kvrt_model* model, uint32_t ms, uint32_t* runnable, kvrt_error* err);

/* Counters since the model was opened, and gauges. */
typedef struct kvrt_metrics {
  uint32_t struct_size;
  uint64_t sessions, generating, paused;       /* open; of them, from begin to DONE; of these, waiting for their host */
  uint64_t blocks, blocks_used, blocks_cached; /* of the pool: all; held by sessions; idle but indexed */
  uint64_t steps, step_rows;                   /* steps run, rows in them */
  double step_ms_total, step_ms_longest;
  uint64_t generations, prefills; /* begun */
  uint64_t done_eos, done_stop, done_max_tokens, done_context_full, done_cancelled, done_prefilled, failed;
  uint64_t prompt_tokens, reused_memory, reused_disk, prefilled, recomputed, generated; /* sums of the reports so far */
  uint64_t preemptions;                                                                 /* generations that lent their blocks to others */
  uint64_t evictions;                                                                   /* cached blocks given up */
  uint64_t first_tokens; /* generations that had one: the count of the next three */
  double ttft_ms_total, queue_ms_total, prefill_ms_total;
  double decode_ms_total; /* over `generated - first_tokens` tokens */
} kvrt_metrics;

/* The model's counters now. Any thread; waits for no step. */
KVRT_API kvrt_status kvrt_model_metrics(const kvrt_model* model, kvrt_metrics* out, kvrt_error* err);
/* The same in Prometheus' text format, version 0.0.4. label_value becomes model="..."; NULL: the model's name. Numbers have a decimal
 * point in every locale. Any thread. TOO_SMALL. */
KVRT_API kvrt_status kvrt_model_metrics_text(const kvrt_model* model, const char* label_value, size_t label_value_size, char* text,
                                             size_t capacity, size_t* needed, kvrt_error* err);

typedef struct kvrt_plan_options {
  uint32_t struct_size;
  uint32_t kv_format;                  /* KVRT_KV_* */
  uint32_t block_tokens;               /* 0: 32 */
  uint32_t sessions;                   /* 0: 1 */
  uint64_t session_tokens;             /* length of each; 0: the model's context */
  uint64_t shared_tokens;              /* leading tokens that all sessions have in common */
  uint64_t memory_bytes;               /* budget for everything; 0: what is free on this machine */
  uint32_t layers, kv_heads, head_dim; /* a geometry instead of a file: path NULL; weights and scratch are 0 then */
  uint32_t reserved;
} kvrt_plan_options;

typedef struct kvrt_plan {
  uint32_t struct_size;
  uint32_t block_tokens;
  uint32_t layers, heads, kv_heads, head_dim, context_length;
  uint32_t fits; /* 1: total_bytes <= memory_bytes */
  uint64_t kv_bytes_per_token, block_bytes;
  uint64_t weight_bytes, scratch_bytes;    /* resident, as in kvrt_model_props */
  uint64_t session_blocks, session_bytes;  /* of one session alone */
  double used, waste;                      /* share of its blocks' slots that hold tokens, and that do not */
  uint64_t blocks, kv_bytes;               /* of all the sessions; shared blocks once */
  uint64_t stored_tokens, unshared_tokens; /* that those blocks hold; that they would hold without sharing */
  uint64_t total_bytes;                    /* weights, scratch and KV */
  uint64_t memory_bytes;                   /* the budget */
  uint64_t sessions_max, context_max;      /* in the budget: sessions of that length; tokens of a single one */
} kvrt_plan;

/* What a model will cost, from the file's header alone: no weights are read. model_open allocates by the same functions. Any thread;
 * reads the header. NOT_FOUND, IO, CORRUPT, UNSUPPORTED: as model_open says of the file. LIMIT: more than any machine could hold. */
KVRT_API kvrt_status kvrt_model_plan(const kvrt_runtime* runtime, const char* path, size_t path_size, const kvrt_plan_options* options,
                                     kvrt_plan* out, kvrt_error* err);

/* The directory that models with such options would keep their weights in. */
typedef struct kvrt_cache_props {
  uint32_t struct_size;
  uint32_t files;       /* models there, each in the layout of one machine's CPU */
  uint64_t bytes;       /* of these */
  uint64_t bytes_max;   /* cache_bytes_max, or what 0 stands for there */
  uint64_t bytes_free;  /* of the file system, beyond what stays free */
  char directory[4096]; /* absolute, without links; it may still be missing */
} kvrt_cache_props;

/* Looks, and makes nothing. NOT_FOUND: no directory is named. INVALID, IO, UNSUPPORTED: why no file is added to it (it, or where it
 * would be made, belongs to another user, can be written by others, cannot be written, is on a network); what lies in it is used where
 * only writing is impossible. Any thread. */
KVRT_API kvrt_status kvrt_model_cache(const kvrt_runtime* runtime, const kvrt_model_options* options, kvrt_cache_props* out,
                                      kvrt_error* err);

enum { KVRT_INSPECT_ALL = 1 /* arrays to their end, not their first elements alone */ };

/* What a GGUF file holds, as JSON, from its header alone: {"file", "file_bytes", "metadata": {key: value; an array as {"array": type,
 * "length", "first" or "elements"}}, "types": {type: {"tensors", "bytes"}}, "tensors": [{"name", "type", "shape": the contiguous
 * dimension first, "bytes"}], "refused": [{"what": "tokenizer", "chat template" or "model", "status", "message"}]: what kvrt could not
 * run of it}. A file that is no sound GGUF is CORRUPT. Any thread; reads the header. NOT_FOUND, IO, LIMIT, TOO_SMALL. */
KVRT_API kvrt_status kvrt_model_inspect(const kvrt_runtime* runtime, const char* path, size_t path_size, uint32_t flags, char* json,
                                        size_t capacity, size_t* needed, kvrt_error* err);

/* ---- store ------------------------------------------------------------------------------------------------------------------- */

typedef struct kvrt_store_options {
  uint32_t struct_size;
  uint32_t read_only;  /* 1: never write; a directory that cannot be written is opened so by itself */
  uint32_t must_exist; /* 1: NOT_FOUND instead of creating it */
  uint32_t reserved;
  /* Where KV would pass one of these, a save takes room from idle sessions (see kvrt_store_pin), else it leaves that KV out. */
  uint64_t disk_bytes_max; /* of catalog and segments (see disk_bytes), but that the catalog's log may pass it by some 100 KiB until the
                            * next save or gc; a save whose tokens would pass it is NO_SPACE; 0: no cap */
  uint64_t free_bytes_min; /* that KV leaves free on the file system, for tokens and others; 0: a twentieth of it, at most 1 GiB; at
                            * least 64 KiB in any case */
} kvrt_store_options;

typedef struct kvrt_store_props {
  uint32_t struct_size;
  uint32_t read_only;
  uint32_t format; /* of the directory */
  uint64_t sessions, chunks, segments;
  uint64_t chunk_bytes, chunk_raw_bytes; /* compressed; the KV they hold */
  uint64_t disk_bytes;     /* catalog and segments by their lengths: a hole that gc punched counts still, as for disk_bytes_max */
  uint64_t chunks_damaged; /* found since open */
  uint64_t chunks_evicted; /* since open, for want of room */
  uint64_t old_bytes;      /* of what migrations and repairs left, not in disk_bytes: see kvrt_store_remove_old */
  uint64_t bytes_free;     /* of KV that saves may add, within disk_bytes_max and free_bytes_min. For more they evict KV */
} kvrt_store_props;

/* Any number of processes may have a directory open, and so may the runtimes of one; handles of one runtime share its store, as the
 * first opened it. A call that writes waits for others once, at most 5 seconds, then BUSY (STORE_LOCKED); reading and closing do not.
 * The directory is made with mode 0700, and must be on a local file system. What is in it is as private as the conversations. Its
 * checksums find damage; they do not protect against who can write it: a forged store, KV and all, is believed. Open only directories
 * that you trust as your own process. CORRUPT (CATALOG_CORRUPT): the catalog is damaged, or another store's: both are named then. *out
 * is the caller's to release. Any thread. A store of 0.1 is migrated. NOT_FOUND: the parent directory is missing, or must_exist or
 * read_only and no store is there. BUSY: another process makes, migrates or repairs it. CORRUPT: CATALOG_CORRUPT or CATALOG_MISSING;
 * kvrt_store_repair is for those.
 * INCOMPATIBLE: STORE_TOO_NEW, FOREIGN_PROGRAM, or one too old; untouched. UNSUPPORTED: a network file system. INVALID:
 * UNSAFE_DIRECTORY (others may write it or a file in it, or one is a link or no file). IO: PERMISSION, READ_ONLY, or the system failed.
 * NO_SPACE. */
KVRT_API kvrt_status kvrt_store_open(kvrt_runtime* runtime, const char* path, size_t path_size, const kvrt_store_options* options,
                                     kvrt_store** out, kvrt_error* err);
/* One more owner of the handle. Any thread; NULL is a no-op. */
KVRT_API void kvrt_store_retain(kvrt_store* store);
/* One owner less; after the last the handle is gone, and the directory closes with the store's last session. Any thread. */
KVRT_API void kvrt_store_release(kvrt_store* store);
/* What the store holds and takes on the disk. Any thread. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_info(const kvrt_store* store, kvrt_store_props* out, kvrt_error* err);
/* One ENTRY event per session, ordered by domain and name. domain NULL: of all domains; "" with size 0: the default one. Any thread.
 * CANCELLED: by the callback. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_list(const kvrt_store* store, const char* domain, size_t domain_size, kvrt_event_fn callback, void* user,
                                     kvrt_error* err);
/* The entry of one session. Any thread. NOT_FOUND: no session of this name, or it has expired. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_stat(const kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                     kvrt_store_entry* out, kvrt_error* err);
/* What is kept of a session, as JSON; its model is not needed: {"name", "domain", "id", "gen": its generation, "model_id", "root": of
 * its chain of keys, "block_tokens", "tokens": [ids], "messages": [as they were given], "spans": [of each message {"begin", "end",
 * "generated"}], "chunks": [{"key", "begin", "end": of tokens, "bytes": of its KV on disk; 0: a resume computes it again}], "options":
 * {"no_prefix_cache", "tools", "documents", "variables", "template_time", "grammar": null or {"kind", "begin", "source"}}}. CORRUPT when
 * what is kept of it is damaged. Any thread. NOT_FOUND. INCOMPATIBLE: saved by a newer kvrt. IO. TOO_SMALL. */
KVRT_API kvrt_status kvrt_store_show(const kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                     char* json, size_t capacity, size_t* needed, kvrt_error* err);
/* Removes the session, and the chunks that no other needs. Handles that have it open go on, and may save it again. Any thread.
 * NOT_FOUND. BUSY: STORE_LOCKED. NO_SPACE. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_remove(kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                       kvrt_error* err);
/* NAME_TAKEN when `to` exists. Handles that have it open under the old name are as if it had been removed. Any thread. NOT_FOUND.
 * CONFLICT: NAME_TAKEN. BUSY: STORE_LOCKED. NO_SPACE. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_rename(kvrt_store* store, const char* domain, size_t domain_size, const char* from, size_t from_size,
                                       const char* to, size_t to_size, kvrt_error* err);
/* pinned 1 to 255: gc leaves it, expired or not; 0: not pinned, and its expiry counts again. It is also a priority. When a save finds no
 * room, sessions lose their KV, not their tokens: first those of the saver's domain that are not pinned, then others that are not
 * pinned, those used longest ago first; then those of its domain that are pinned less than the saved one. Any thread. NOT_FOUND. BUSY:
 * STORE_LOCKED. NO_SPACE. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_pin(kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                    uint32_t pinned, kvrt_error* err);
/* From now on; 0: for ever. An expired session that is not pinned is NOT_FOUND, and gc removes it. Any thread. NOT_FOUND. INVALID: more
 * than 100 years. BUSY: STORE_LOCKED. NO_SPACE. IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_set_ttl(kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                                        uint64_t seconds, kvrt_error* err);

typedef struct kvrt_gc_report {
  uint32_t struct_size;
  uint64_t sessions_removed, chunks_removed, segments_removed, bytes_freed;
  double ms;
  uint64_t bytes_rewritten; /* of chunks that went from sparse segments into new ones */
  uint64_t bytes_punched;   /* of removed chunks in segments that stay: zeros now, whose space the file system has back */
  uint64_t
      log_bytes_kept; /* not 0: another process reads an old state (or was stopped at it), and so much of the catalog's log stays, which
                               may have what was removed; the next gc, save or close of this handle finishes */
} kvrt_gc_report;

/* Removes expired sessions that are not pinned, chunks that no session needs, and segments without any; segments of which less than half
 * is needed are written anew. What was removed before it, by whichever process, is in no file afterwards, but for keys (hashes) of
 * chunks and names, and what kvrt_store_remove_old takes; unless log_bytes_kept says otherwise, for which it waits up to 5 seconds.
 * PROGRESS between slices of about 5 ms of work; a slice that ends in a commit or a file also waits until the disk has it. The store is
 * whole wherever the callback stops it. Every save does one slice of it by itself. After a jump of the wall clock (5 minutes back, 7
 * days forth) the first slice expires nothing. report may be NULL. Any thread. CANCELLED: by the callback. BUSY: STORE_LOCKED. NO_SPACE.
 * IO. CORRUPT. */
KVRT_API kvrt_status kvrt_store_gc(kvrt_store* store, kvrt_event_fn callback, void* user, kvrt_gc_report* report, kvrt_error* err);
/* Removes what migrations and repairs left for who wants to go back, and which holds sessions that were removed since: catalog.db.old
 * and the folders damaged-<n>. *bytes: what was in them; may be NULL. READ_ONLY where the store is. Any thread. BUSY: STORE_LOCKED. IO. */
KVRT_API kvrt_status kvrt_store_remove_old(kvrt_store* store, uint64_t* bytes, kvrt_error* err);
/* Reads and checks everything, the sessions' own records as a resume would read them; in little memory, whatever the store claims. It
 * finds damage, not forgery. One FAULT event per fault, PROGRESS between; CORRUPT when there was a fault. Any thread; reads all of the
 * store, beside those who use it. CANCELLED: by the callback. IO: also where the directory was moved or deleted. */
KVRT_API kvrt_status kvrt_store_verify(kvrt_store* store, kvrt_event_fn callback, void* user, kvrt_error* err);

enum { KVRT_REPAIR_SOUND = 1, KVRT_REPAIR_MENDED = 2, KVRT_REPAIR_REBUILT = 3 }; /* nothing to do; bad chunks forgotten; a new catalog */

typedef struct kvrt_repair_report {
  uint32_t struct_size;
  uint32_t outcome;             /* KVRT_REPAIR_* */
  uint64_t sessions_kept;       /* under their names, with all their tokens and messages */
  uint64_t sessions_with_holes; /* of those: lost chunks, which a resume computes again */
  uint64_t sessions_recovered;  /* under names like recovered-0123456789ab: tokens, without messages, of sessions whose name is lost */
  uint64_t sessions_lost;       /* that were named, and of which too little is left; 0 where no row told of any */
  uint64_t chunks_kept, chunks_lost, bytes_kept;
  double ms;
  uint64_t chunks_unowned; /* whole, of sessions that are lost: no session tells their model and domain */
} kvrt_repair_report;

/* For a directory that does not open (CATALOG_CORRUPT, CATALOG_MISSING), or where verify finds faults: makes it a sound store of all
 * that can be proved by its checksums and keys. Only while nobody has it open, else BUSY. FAULT events say what is wrong and what
 * becomes of it, PROGRESS counts bytes; stopped by its callback it has changed nothing. A catalog that is replaced is kept beside it in
 * damaged-<n>, which the last FAULT names, with segments of unowned chunks alone. Killed or failed, it can be called again.
 * report may be NULL. Any thread; reads all of the directory. NOT_FOUND: no store is there. CANCELLED: by the callback. INCOMPATIBLE: a
 * newer store; untouched. NO_SPACE. IO. */
KVRT_API kvrt_status kvrt_store_repair(kvrt_runtime* runtime, const char* path, size_t path_size, kvrt_event_fn callback, void* user,
                                       kvrt_repair_report* report, kvrt_error* err);

/* ---- cancel ------------------------------------------------------------------------------------------------------------------ */

/* Ends generations from outside, once and for all: given in kvrt_generate_options, to any number of them, of any sessions and models.
 * Each keeps it from begin until its DONE was taken or it failed; it outlives sessions, models and runtimes, or they it. NO_MEMORY. *out
 * is the caller's to release. Any thread. */
KVRT_API kvrt_status kvrt_cancel_open(kvrt_cancel** out, kvrt_error* err);
/* One more owner of the handle. Any thread; NULL is a no-op. */
KVRT_API void kvrt_cancel_retain(kvrt_cancel* cancel);
/* One owner less; after the last the handle is gone, fired or not. Any thread. */
KVRT_API void kvrt_cancel_release(kvrt_cancel* cancel);
/* Any thread, at any time, in callbacks too (but log and wake), not in a signal handler. Never fails, and waits for no step. Does to each
 * generation that was begun with it what kvrt_session_cancel does, which wakes whoever sleeps in next and rings `wake`. For good: one that is
 * begun with it later ends at once, and computes nothing. */
KVRT_API void kvrt_cancel_fire(kvrt_cancel* cancel);
/* 1: it was fired; 0: not, or it is NULL or no handle of this process. Any thread. */
KVRT_API uint32_t kvrt_cancel_fired(const kvrt_cancel* cancel);

/* ---- session ----------------------------------------------------------------------------------------------------------------- */

enum { KVRT_STATE_IDLE = 1, KVRT_STATE_GENERATING = 2, KVRT_STATE_SUSPENDED = 3, KVRT_STATE_FAILED = 4 };

/* Only signals (sets an event, writes to a pipe): it must not call kvrt. */
typedef void (*kvrt_wake_fn)(void* user);

/* What resume does with a snapshot whose KV another device's arithmetic made (a CPU's on a GPU, and back). RECOMPUTE: its tokens are computed
 * again, and the session is as exact as any. ACCEPT: KV of the same format and block size is taken as it is; the answer may then differ from
 * a computed one where two tokens are nearly as likely. Such a session is `inexact` for good, and no other session shares its KV. */
enum { KVRT_FOREIGN_KV_DEFAULT = 0 /* RECOMPUTE */, KVRT_FOREIGN_KV_RECOMPUTE = 1, KVRT_FOREIGN_KV_ACCEPT = 2 };

typedef struct kvrt_session_options {
  uint32_t struct_size;
  /* 1: neither reuse KV of other sessions nor offer its own, in memory. Its own comes back from the store, whether it was saved with this
   * option or without. The store keeps a chunk of the same tokens once in a domain, and sessions that use the cache find it there, whoever
   * saved it: what is not to be shared at all needs a domain of its own. */
  uint32_t no_prefix_cache;
  kvrt_store* store;  /* where it saves, and finds stored prefixes; NULL: none. resume sets it by itself */
  const char* domain; /* sharing scope, up to 255 bytes: nothing is shared between domains; NULL: the default one */
  size_t domain_size;
  const char* tools; /* a JSON array for the template's variable `tools`; saved with the session. resume: NULL keeps what was saved */
  size_t tools_size;
  kvrt_wake_fn wake; /* called when next has something to give (an event, a failure) and had nothing before: on the thread that computes,
                        cancels, accepts or begins, with no lock held; NULL: none */
  void* wake_user;
  kvrt_free_fn wake_user_free; /* called once with wake_user when wake can come no more, also where wake is NULL; not if the call fails */
  const char* documents; /* as in kvrt_template_options; saved with the session as tools are, NULL in resume keeps what was saved. What */
  size_t documents_size; /* strftime_now gives the template is the time when the session was opened, also after a resume */
  const char* variables;
  size_t variables_size;
  /* Autosave: the library saves the session by itself, on a thread of the store's that computes nothing and sleeps when nothing is due, in
   * small portions where others generate. It saves tokens, messages and full KV blocks, with checkpoint's default options, under the name of
   * the session's last save or resume; autosave_name is its name until it has one (a fork has none). 0: not. close saves once more what is
   * not saved yet, with the KV of the last block. A failure is logged, is in kvrt_session_props.last_*, and the next occasion tries again. */
  const char* autosave_name;
  size_t autosave_name_size;
  uint32_t autosave_turn;    /* 1: when a generation is over and its DONE was taken */
  uint32_t autosave_tokens;  /* when it has so many tokens more */
  uint32_t autosave_idle_ms; /* when nothing has happened to it for so long, at most a day */
  uint32_t foreign_kv;       /* resume: KVRT_FOREIGN_KV_* */
} kvrt_session_options;

typedef struct kvrt_session_props {
  uint32_t struct_size;
  uint32_t state; /* KVRT_STATE_* */
  uint64_t tokens;
  uint64_t kv_tokens; /* leading tokens whose KV is in the pool */
  uint64_t kv_blocks, kv_bytes;
  uint64_t events_unread;
  uint64_t messages;
  uint64_t generation;     /* of the last save or resume; 0: never saved */
  char id[40];             /* 32 hex digits; kept over suspend and resume, a save under another name takes a new one */
  char name[256];          /* of the last save or resume */
  kvrt_status last_status; /* of the last failure; KVRT_OK when there was none */
  int32_t last_detail;
  uint32_t awaits_accept; /* 1: the generation waits for kvrt_session_accept */
  uint32_t inexact;       /* 1: it was resumed with KVRT_FOREIGN_KV_ACCEPT, and took KV of another device */
  char last_message[512];
} kvrt_session_props;

/* An empty session. *out is the caller's to close. Any thread. UNSUPPORTED: the file has a vocabulary alone. LIMIT: too many sessions
 * are open. INVALID: tools, documents or variables are not JSON of their kind. IO. */
KVRT_API kvrt_status kvrt_session_open(kvrt_model* model, const kvrt_session_options* options, kvrt_session** out, kvrt_error* err);
/* Cancels a running call of another thread and waits for it, at most one step; a checkpoint of another thread comes to its end first,
 * and a session with autosave is saved once more where it has changed. In a callback of the session's own call it waits for nothing, and
 * takes effect when that call returns. Since it waits for the call, and the call for its callback, a thread that the callback waits for (a
 * user interface's, which it posts to) must not close: it fires the generation's `cancel`, and who made the call closes when that is back. */
KVRT_API void kvrt_session_close(kvrt_session* session);
/* What the session is now. Any thread, beside any call; waits for no step. */
KVRT_API kvrt_status kvrt_session_info(const kvrt_session* session, kvrt_session_props* out, kvrt_error* err);

/* Appends tokens as they are. Queues: no compute. INVALID: an id outside the vocabulary, or the session FAILED. BUSY: it generates, or
 * another call is inside. LIMIT: the model's context or the pool could never hold them. */
KVRT_API kvrt_status kvrt_session_append(kvrt_session* session, const int32_t* tokens, size_t count, kvrt_error* err);
/* Tokenizes, as kvrt_model_tokenize does. The first text of an empty session gets a BOS where the model asks for it, and the space that
 * some vocabularies put before a text only where it begins the session or follows a control token. flags: KVRT_TEXT_SPECIAL. Queues: no
 * compute. INVALID, BUSY, LIMIT: as kvrt_session_append says. */
KVRT_API kvrt_status kvrt_session_append_text(kvrt_session* session, const char* text, size_t text_size, uint32_t flags, kvrt_error* err);

typedef struct kvrt_append_info {
  uint32_t struct_size;
  uint64_t appended;     /* tokens added at the end */
  uint64_t rewritten;    /* tokens dropped before, because the template renders the earlier conversation otherwise now */
  uint64_t rewritten_at; /* position of the first of them; the session's length before when there are none */
} kvrt_append_info;

/* Appends one message, a JSON object with role and content, rendered by the model's template with the conversation before it. The next
 * begin opens the assistant's turn, and what it generates becomes a message of its own, its sampled tokens kept. info may be NULL.
 * Of the session it keeps what messages made: tokens of append, append_text and of generations without messages are dropped, and counted as
 * rewritten. Queues: no compute; the template has a number of steps, about 100 ms of them. INVALID: no JSON object with a role, or the
 * template refuses it (TEMPLATE_ERROR). LIMIT: also TEMPLATE_LIMIT. UNSUPPORTED: the model has no template, or it uses what kvrt
 * does not know. BUSY: it generates. */
KVRT_API kvrt_status kvrt_session_append_message(kvrt_session* session, const char* message, size_t message_size, kvrt_append_info* info,
                                                 kvrt_error* err);
/* Makes the conversation this JSON array of messages, for hosts that keep the list themselves: what is equal from the start stays, with
 * the sampled tokens of generated turns, and the rest is appended anew. info says where it parted. Statuses as
 * kvrt_session_append_message. */
KVRT_API kvrt_status kvrt_session_set_messages(kvrt_session* session, const char* messages, size_t messages_size, kvrt_append_info* info,
                                               kvrt_error* err);

typedef struct kvrt_message_props {
  uint32_t struct_size;
  uint32_t generated;  /* 1: the model's own turn */
  uint64_t begin, end; /* its tokens. Between two messages there may be some that open a turn */
} kvrt_message_props;

/* Message `index` as JSON and where it lies; NOT_FOUND past the last. out may be NULL. Any thread, beside any call. TOO_SMALL. */
KVRT_API kvrt_status kvrt_session_message(const kvrt_session* session, uint64_t index, kvrt_message_props* out, char* json, size_t capacity,
                                          size_t* needed, kvrt_error* err);

enum { KVRT_LOGITS_NONE = 0, KVRT_LOGITS_LAST = 1, KVRT_LOGITS_ALL = 2 };

/* Computes what is queued: begin with `prefill` set, and next until DONE. PROGRESS, and a LOGITS event for the last or for every
 * position that was computed (with ALL nothing is reused). report may be NULL. With a `cancel` use begin, which takes one. INVALID: the
 * session FAILED. BUSY: it generates. CANCELLED: by the callback or a cancel; what was computed stays. LIMIT: the pool cannot hold it.
 * NO_MEMORY. DEVICE: the device failed, or the logits are no numbers (NUMERIC); the session is FAILED then. */
KVRT_API kvrt_status kvrt_session_prefill(kvrt_session* session, uint32_t logits, kvrt_event_fn callback, void* user, kvrt_report* report,
                                          kvrt_error* err);

enum {
  KVRT_SAMPLER_DEFAULT = 0, /* kvrt's, by the options below */
  KVRT_SAMPLER_HOST = 1     /* the host's: after each LOGITS event it answers with kvrt_session_accept */
};

/* Constrained output: a token is sampled only if the answer can still become what the grammar says; the end of the turn only where the
 * answer is whole. GBNF: rules `name ::= ...` as in llama.cpp, from `root`. JSON_SCHEMA: JSON text that is valid by the schema, its
 * properties in the schema's order, and no others unless additionalProperties allows them; what a mask cannot promise (uniqueItems, not...)
 * is UNSUPPORTED by name. CONTINUE: goes on in the last generation's grammar after max_tokens, a cancel, or a resume; what was appended
 * since must fit it. */
enum { KVRT_GRAMMAR_DEFAULT = 0 /* none */, KVRT_GRAMMAR_GBNF = 1, KVRT_GRAMMAR_JSON_SCHEMA = 2, KVRT_GRAMMAR_CONTINUE = 3 };

/* How an answer is split into content, reasoning and tool calls. A call that is malformed or cut short is content. A session without tools
 * has no calls, whatever its text. A stop string does not reach over a control token then. */
enum {
  KVRT_REPLY_DEFAULT = 0, /* not at all: TOKEN events alone */
  KVRT_REPLY_AUTO = 1,    /* as the model's chat template shows calls and reasoning */
  /* or as a named family writes calls, for files whose template does not show it: */
  KVRT_REPLY_PLAIN = 2,  /* no calls */
  KVRT_REPLY_HERMES = 3, /* <tool_call>{...}</tool_call>: Hermes, Qwen 2.5 and 3 */
  KVRT_REPLY_LLAMA3 = 4,
  KVRT_REPLY_MISTRAL = 5,
  KVRT_REPLY_GEMMA = 6,
  KVRT_REPLY_DEEPSEEK = 7
};

/* Sampling in order: bias, repetition, frequency and presence penalties, temperature, top_k, top_p, min_p. Ties go to the lowest id. */
typedef struct kvrt_generate_options {
  uint32_t struct_size;
  uint32_t max_tokens;                       /* 0: until the model ends its turn or the context is full */
  float temperature;                         /* 0: greedy */
  uint32_t top_k;                            /* 0: off */
  float top_p;                               /* 0: off; else 0 < top_p <= 1 */
  float min_p;                               /* 0: off; else tokens of less than min_p times the best one's probability are left out */
  float repetition_penalty;                  /* 0 and 1: off; over the whole session, as in transformers */
  float frequency_penalty, presence_penalty; /* 0: off; over what this generation has given, as in OpenAI's API */
  uint32_t penalty_window;                   /* the penalties look at the last so many tokens; 0: all */
  const kvrt_token_value* logit_bias;        /* added to the logits; -INFINITY bans the token */
  size_t logit_bias_count;
  uint64_t seed; /* 0: drawn, and reported. A draw depends on seed and position alone */
  const int32_t* stop_tokens;
  size_t stop_token_count;
  /* Up to 16, of up to 256 bytes, each ended by a NUL. Text that could be the begin of one is held back until it is known not to be: it
   * comes with a later TOKEN, or with DONE. Of one that matched, and after it, nothing comes. */
  const char* stop_strings;
  size_t stop_strings_size;      /* with the NULs */
  uint32_t ignore_eos;           /* 1: go on past end tokens */
  uint32_t top_logprobs;         /* so many alternatives with each TOKEN, up to 64 */
  uint32_t sampler;              /* KVRT_SAMPLER_* */
  uint32_t emit_logits;          /* 1: a LOGITS event before every TOKEN */
  uint32_t no_generation_prompt; /* 1: do not open the assistant's turn after append_message */
  uint32_t all_or_nothing;       /* 1: cancelled or failed, it leaves the session as it was before begin */
  uint32_t prefill;              /* 1: sample nothing; ends with PREFILLED, as kvrt_session_prefill does, but through next */
  uint32_t logits;               /* with prefill: KVRT_LOGITS_* */
  uint32_t grammar_kind; /* KVRT_GRAMMAR_*; not with ignore_eos. With sampler HOST, LOGITS has -INFINITY for tokens that do not fit */
  uint32_t reply;        /* KVRT_REPLY_* */
  const char* grammar;   /* GBNF or JSON schema, UTF-8 */
  size_t grammar_size;
  kvrt_cancel* cancel; /* ends it when it is fired, or was; kept until DONE; NULL: none */
} kvrt_generate_options;

/* Starts a generation; compute happens in next, of any session of the model: a step serves all that generate. Does not compute; the
 * template and a grammar take their time. INVALID: an option, or a grammar that is malformed (GRAMMAR_ERROR), or the session FAILED, or
 * it has no token to go on from. BUSY: it generates. LIMIT: the opened turn does not fit the context, or GRAMMAR_LIMIT. UNSUPPORTED: a
 * keyword of a schema, by name. */
KVRT_API kvrt_status kvrt_session_begin(kvrt_session* session, const kvrt_generate_options* options, kvrt_error* err);
/* The next event, computing as needed. timeout_ms < 0 waits as long as it takes, 0 only takes what is there and never computes; it
 * bounds the wait, not a step. A failure of the session is its status here, once, and ends the generation without a DONE: the session is
 * IDLE then, or FAILED where its logits were NaN or infinite (DEVICE, detail NUMERIC). INVALID while accept is due. After NO_MEMORY a
 * session that still generates goes on at the next call; cancel it to have it end. BUSY: another call is inside. LIMIT: the pool cannot
 * hold the session. NO_MEMORY. DEVICE: the device failed, or NUMERIC. */
KVRT_API kvrt_status kvrt_session_next(kvrt_session* session, kvrt_event* event, int32_t timeout_ms, kvrt_error* err);
/* sampler HOST: the token that follows the position of the last LOGITS event. Any thread, also in a callback of generate. Its TOKEN
 * event, and DONE where it ends the generation, come from next. INVALID when none is asked for. INVALID: also a token outside the
 * vocabulary or the grammar. */
KVRT_API kvrt_status kvrt_session_accept(kvrt_session* session, int32_t token, kvrt_error* err);
/* begin and next until DONE. The callback (may be NULL) sees TOKEN, PROGRESS, LOGITS and DONE, with `reply` also the answer's parts;
 * stopping gives CANCELLED, it sees no more, and the tokens so far stay. report (may be NULL) is filled then too. Another failure ends
 * the generation at its last token and leaves the session as next says: IDLE, after NO_MEMORY too, or FAILED after NaN logits. Statuses as kvrt_session_begin and
 * kvrt_session_next. */
KVRT_API kvrt_status kvrt_session_generate(kvrt_session* session, const kvrt_generate_options* options, kvrt_event_fn callback, void* user,
                                           kvrt_report* report, kvrt_error* err);
/* Any thread. Ends a generation or prefill within one step, at the last accepted token; it can be cancelled until its DONE was taken.
 * Else a no-op. Waits for nothing. Statuses: those of 3 alone. */
KVRT_API kvrt_status kvrt_session_cancel(kvrt_session* session, kvrt_error* err);

/* A copy that shares all KV blocks; what differs later is copied at its first write. It is unsaved and has a new id. Of options (may be
 * NULL) only wake is read: the rest is as in the original, but for autosave_name. The first report of either says the same of what was
 * reused before the fork: reused_disk counts in both. *out is the caller's to close. INVALID: it FAILED. BUSY: it generates, or another
 * call is inside. LIMIT: too many sessions are open. */
KVRT_API kvrt_status kvrt_session_fork(kvrt_session* session, const kvrt_session_options* options, kvrt_session** out, kvrt_error* err);
/* Keeps the first `count` tokens, and the messages that end within them. INVALID: more than it has, or it FAILED. BUSY: it generates, or
 * another call is inside. */
KVRT_API kvrt_status kvrt_session_truncate(kvrt_session* session, uint64_t count, kvrt_error* err);
/* Drops the tokens [from, to), and the messages in it; what follows moves up and is computed again. To forget the oldest turns: from the
 * end of the system message to the begin of the first message to keep. INVALID when it cuts a message in two. In a conversation of
 * messages, tokens that only joined the last dropped one to the next (a newline) go too. BUSY: it generates, or another call is inside.
 * INVALID: also a range past its end, or it FAILED. */
KVRT_API kvrt_status kvrt_session_erase(kvrt_session* session, uint64_t from, uint64_t to, kvrt_error* err);
/* The text of tokens [from, to), `to` at most the length; UINT64_MAX: the end. flags: KVRT_TEXT_SPECIAL. Any thread, beside any call.
 * The bytes are the tokens' own: a range may begin or end within a code point, and what never becomes one stays as it is, where TOKEN
 * events have U+FFFD. INVALID: a range past its end. TOO_SMALL. */
KVRT_API kvrt_status kvrt_session_text(const kvrt_session* session, uint64_t from, uint64_t to, uint32_t flags, char* text, size_t capacity,
                                       size_t* needed, kvrt_error* err);
/* All token ids of the session. Any thread, beside any call. TOO_SMALL. */
KVRT_API kvrt_status kvrt_session_tokens(const kvrt_session* session, int32_t* tokens, size_t capacity, size_t* needed, kvrt_error* err);

enum {
  KVRT_DURABILITY_DEFAULT = 0, /* TOKENS */
  KVRT_DURABILITY_NONE = 1,    /* nothing waits for the disk */
  KVRT_DURABILITY_PROCESS = 2, /* survives the process, not a power cut */
  KVRT_DURABILITY_TOKENS = 3,  /* tokens survive a power cut; KV may have to be computed again */
  KVRT_DURABILITY_KV = 4       /* the KV that is saved survives it too */
};

/* How the KV chunks that a save writes are stored; those that the store has stay as they are. ZSTD: packed (level 1), about a quarter smaller.
 * NONE: as they are, which loads sooner; but for a last block that is not full, whose empty slots take no room when it is packed. */
enum { KVRT_CODEC_DEFAULT = 0 /* ZSTD */, KVRT_CODEC_NONE = 1, KVRT_CODEC_ZSTD = 2 };

typedef struct kvrt_save_options {
  uint32_t struct_size;
  uint32_t durability;  /* KVRT_DURABILITY_* */
  uint32_t overwrite;   /* 1: replace another session of this name, or a newer generation */
  uint32_t pin;         /* 1 to 255: pin it, with this priority; 0: as it is */
  uint64_t ttl_seconds; /* it expires so long after this save, at most 100 years; 0: never */
  uint32_t codec;       /* KVRT_CODEC_* */
  uint32_t reserved;
} kvrt_save_options;

typedef struct kvrt_save_report {
  uint32_t struct_size;
  uint64_t generation;
  uint64_t tokens;
  uint64_t chunks, chunks_written; /* of this session; those the store did not have yet */
  uint64_t bytes_written;          /* of chunks */
  double ms;
  uint64_t chunks_missing; /* of them, that the store lacks now: for want of room, or their KV was not there. A resume computes it */
} kvrt_save_report;

/* Saves under `name` in the session's store (1 to 255 bytes of UTF-8) and stays in memory. When it returns OK the session is on disk;
 * when not, everything is as before, but that KV of idle sessions may have made room. CONFLICT: the name is taken, or was saved by another handle since. report may be NULL. Any thread,
 * at any time. Of a session that generates it saves what a cancel at that moment would leave; it waits for the step that runs, at most,
 * and no step waits for it. What becomes of the session meanwhile does not change what is saved. Saves of one session wait for each
 * other. Tokens and messages are saved as they are, and KV of full blocks. Of the last block, which is not full, KV is written when it
 * has 8 tokens more than the store has of it, and a quarter of block_tokens: checkpoints after every token write at most 4 times the KV
 * that is new, and a resume of one computes that many tokens again at most (8 of blocks of 32), the last token included, which has no KV
 * yet. That is so under DURABILITY_KV, too. suspend, and close with autosave, write all of it. A save whose
 * KV has no room in the store saves the tokens, and as much KV as fits from the first block on (see chunks_missing); it is NO_SPACE
 * where the tokens have none, and with DURABILITY_KV. INVALID: no store, or a name that is none. BUSY: STORE_LOCKED. IO.
 * CORRUPT. */
KVRT_API kvrt_status kvrt_session_checkpoint(kvrt_session* session, const char* name, size_t name_size, const kvrt_save_options* options,
                                             kvrt_save_report* report, kvrt_error* err);
/* checkpoint, then gives the blocks back, and with them the KV that the store lacks (chunks_missing). The handle stays valid: the next call that computes warms it again. Statuses as
 * kvrt_session_checkpoint; BUSY also: it generates. */
KVRT_API kvrt_status kvrt_session_suspend(kvrt_session* session, const char* name, size_t name_size, const kvrt_save_options* options,
                                          kvrt_save_report* report, kvrt_error* err);
/* Opens a saved session, in this process or another, and loads its KV. Damaged or missing chunks are holes that the next step computes;
 * report (may be NULL) counts what came back: reused_memory, reused_disk, and prefilled for what remains to compute. INCOMPATIBLE when
 * it was made with another model. options->store is ignored. *out is the caller's to close. NOT_FOUND: no session of this name, or it
 * has expired. CORRUPT: what is kept of its tokens is damaged. LIMIT: too many sessions are open, or the pool or context cannot hold it.
 * CANCELLED: by the callback. BUSY. IO. */
KVRT_API kvrt_status kvrt_session_resume(kvrt_model* model, kvrt_store* store, const char* name, size_t name_size,
                                         const kvrt_session_options* options, kvrt_event_fn callback, void* user, kvrt_report* report,
                                         kvrt_session** out, kvrt_error* err);

#ifdef __cplusplus
}
#endif
#endif
