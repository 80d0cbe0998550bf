// What cgo cannot say. A Go pointer must not lie in memory that C reads, so the texts of an options struct come beside it: one after the other in
// `texts`, their sizes in the struct. A callback comes as a cgo.Handle, 0: none. All of this holds for one call: kvrt copies its inputs.
#ifndef KVRT_GO_SHIM_H
#define KVRT_GO_SHIM_H
#include <kvrt.h>
#include <stdint.h>

kvrt_status go_runtime_open(kvrt_runtime_options* options, const char* texts, uintptr_t log, kvrt_runtime** out, kvrt_error* err);
kvrt_status go_model_open(kvrt_runtime* runtime, const char* path, size_t path_size, kvrt_model_options* options, const char* texts,
                          uintptr_t callback, kvrt_model** out, kvrt_error* err);
kvrt_status go_model_cache(const kvrt_runtime* runtime, kvrt_model_options* options, const char* texts, kvrt_cache_props* out,
                           kvrt_error* err);
kvrt_status go_model_apply_template(const kvrt_model* model, const char* messages, size_t messages_size, kvrt_template_options* options,
                                    const char* texts, char* text, size_t capacity, size_t* needed, kvrt_error* err);
kvrt_status go_store_list(const kvrt_store* store, const char* domain, size_t domain_size, uintptr_t callback, kvrt_error* err);
kvrt_status go_store_gc(kvrt_store* store, uintptr_t callback, kvrt_gc_report* report, kvrt_error* err);
kvrt_status go_store_verify(kvrt_store* store, uintptr_t callback, kvrt_error* err);
kvrt_status go_store_repair(kvrt_runtime* runtime, const char* path, size_t path_size, uintptr_t callback, kvrt_repair_report* report,
                            kvrt_error* err);
kvrt_status go_session_open(kvrt_model* model, kvrt_session_options* options, const char* texts, uintptr_t wake, kvrt_session** out,
                            kvrt_error* err);
kvrt_status go_session_resume(kvrt_model* model, kvrt_store* store, const char* name, size_t name_size, kvrt_session_options* options,
                              const char* texts, uintptr_t wake, uintptr_t callback, kvrt_report* report, kvrt_session** out,
                              kvrt_error* err);
kvrt_status go_session_fork(kvrt_session* session, uintptr_t wake, kvrt_session** out, kvrt_error* err);
kvrt_status go_session_prefill(kvrt_session* session, uint32_t logits, uintptr_t callback, kvrt_report* report, kvrt_error* err);
kvrt_status go_session_begin(kvrt_session* session, kvrt_generate_options* options, const char* texts, const kvrt_token_value* logit_bias,
                             const int32_t* stop_tokens, kvrt_error* err);
kvrt_status go_session_generate(kvrt_session* session, kvrt_generate_options* options, const char* texts,
                                const kvrt_token_value* logit_bias, const int32_t* stop_tokens, uintptr_t callback, kvrt_report* report,
                                kvrt_error* err);
#endif
