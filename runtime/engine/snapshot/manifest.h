// Manifest: what the store keeps of a session beside tokens and KV: the tokens without KV at its end, messages, identities of its text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/engine/session.h"

namespace kvrt {

struct Manifest {
  uint32_t block_tokens = 0;
  bool share = true;
  std::vector<int32_t> pending;  // tokens after the last node
  std::vector<Message> messages;
  TemplateArguments arguments;
  AnswerGrammar grammar;         // of the last answer
  Hash256 text_id, template_id;  // recorded; append_text and append_message may look at them, no key holds them
};

std::vector<uint8_t> encode_manifest(const Manifest& manifest);
// CORRUPT when the bytes are not a manifest. Message spans are checked against `tokens_max` = tokens of nodes + pending.
Result<Manifest> decode_manifest(std::span<const uint8_t> bytes, uint64_t node_tokens, uint32_t vocab);
// That of a session as loaded, whose tokens must be as many as the catalog says, and of the vocabulary.
Result<Manifest> read_manifest(const SessionOut& saved, uint32_t vocab);

// The same without the model: for verify.
Status check_manifest(const SessionOut& saved);

}  // namespace kvrt
