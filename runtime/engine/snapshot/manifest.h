// Manifest: the part of a saved session beside nodes and KV: tokens after the last node, messages, arguments, identities of its text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/engine/session/session.h"

namespace kvrt {

struct Manifest {
  uint32_t block_tokens = 0;
  bool share = true;
  std::vector<int32_t> pending;  // tokens after the last node
  std::vector<Message> messages;
  TemplateArguments arguments;
  AnswerGrammar grammar;         // the last answer's
  Hash256 text_id, template_id;  // recorded only: no key has them in it
};

// The hash of what a manifest has of a conversation beside its tokens.
Hash256 hash_rest(const Conversation& said, const TemplateArguments& arguments);
std::vector<uint8_t> encode_manifest(const Manifest& manifest);
// CORRUPT if the bytes are not a manifest. Message spans are checked against node_tokens and the pending ones.
Result<Manifest> decode_manifest(std::span<const uint8_t> bytes, uint64_t node_tokens, uint32_t vocab);
// The manifest of a loaded session. Its tokens must be as many as the catalog says, and be in the vocabulary.
Result<Manifest> read_manifest(const SessionOut& saved, uint32_t vocab);

// The same check without the model, for verify.
Status check_manifest(const SessionOut& saved);

}  // namespace kvrt
