#include "runtime/engine/snapshot/manifest.h"

#include "runtime/base/bytes.h"
#include "runtime/base/limits.h"

namespace kvrt {

namespace {
constexpr uint32_t kManifestVersion = 4, kManifestOldest = 3;  // 3 ends with the source of the grammar

Status bad(const char* what, size_t at) { return error(Code::kCorrupt, Detail::kFormat, "manifest: %s at byte %zu", what, at); }

// All that stands behind the pending tokens.
void write_rest(const std::vector<Message>& messages, const TemplateArguments& arguments, const AnswerGrammar& grammar, ByteWriter* w) {
  w->write(static_cast<uint32_t>(messages.size()));
  for (const Message& message : messages) {
    w->write(message.begin);
    w->write(message.end);
    w->write(uint32_t{message.generated});
    w->write_string(message.json);
  }
  for (const std::string* json : {&arguments.tools, &arguments.documents, &arguments.variables}) w->write_string(*json);
  w->write(arguments.now);
  w->write(static_cast<uint32_t>(grammar.kind));
  w->write(grammar.begin);
  w->write_string(grammar.source);
  w->write(uint32_t{grammar.bound});
  w->write(static_cast<uint32_t>(grammar.place));
  w->write(static_cast<uint32_t>(grammar.reply));
  w->write(static_cast<uint32_t>(grammar.choice));
  w->write_string(grammar.tool_name);
  w->write(grammar.calls_max);
  w->write(grammar.reasoning_tokens_max);
}
}  // namespace

Hash256 hash_rest(const Conversation& said, const TemplateArguments& arguments) {
  ByteWriter w;
  write_rest(said.messages, arguments, said.grammar, &w);
  return Hasher().add(w.bytes()).finish();
}

// Little-endian: u32 version, u32 block_tokens, u32 flags (1: share), text_id[32], template_id[32], u32 n, i32 pending[n],
// u32 m, then per message u64 begin, u64 end, u32 flags (1: generated), u32 size, JSON; then u32 size, JSON of the tools,
// the documents and the variables each, i64 Unix time of its template; last, of what binds the answer, u32 kind, u64 begin,
// u32 size, source of the grammar, u32 flags (1: it is bound), u32 place, u32 reply, u32 tool_choice, u32 size, name of the
// tool, u32 calls and u32 reasoning tokens at most.
std::vector<uint8_t> encode_manifest(const Manifest& m) {
  ByteWriter w;
  w.write(kManifestVersion);
  w.write(m.block_tokens);
  w.write(uint32_t{m.share});
  w.write_bytes(m.text_id.bytes.data(), 32);
  w.write_bytes(m.template_id.bytes.data(), 32);
  w.write(static_cast<uint32_t>(m.pending.size()));
  w.write_bytes(m.pending.data(), m.pending.size() * sizeof(int32_t));
  write_rest(m.messages, m.arguments, m.grammar, &w);
  return std::move(w.bytes());
}

namespace {

// u32 size, bytes. False: cut short.
bool read_sized(ByteReader* r, std::string* out) {
  uint32_t size = 0;
  std::span<const uint8_t> part;
  if (!r->read(&size) || !r->read_bytes(size, &part)) return false;
  out->assign(reinterpret_cast<const char*>(part.data()), part.size());
  return true;
}

Status decode_grammar(uint32_t version, ByteReader* r, AnswerGrammar* out) {
  uint32_t kind = 0;
  if (!r->read(&kind) || !r->read(&out->begin) || !read_sized(r, &out->source)) return bad("grammar cut short", r->position());
  if (kind > static_cast<uint32_t>(GrammarKind::kJsonSchemaOpen) || kind == static_cast<uint32_t>(GrammarKind::kContinue))
    return bad("unknown kind of grammar", r->position());
  out->kind = static_cast<GrammarKind>(kind);
  out->bound = out->kind != GrammarKind::kNone;
  if (version == kManifestOldest) {
    out->place = AnswerPlace::kContent;  // from the first token on
    return {};
  }
  uint32_t flags = 0, place = 0, reply = 0, choice = 0;
  const bool whole = r->read(&flags) && r->read(&place) && r->read(&reply) && r->read(&choice) && read_sized(r, &out->tool_name) &&
                     r->read(&out->calls_max) && r->read(&out->reasoning_tokens_max);
  if (!whole) return bad("grammar cut short", r->position());
  if (place > static_cast<uint32_t>(AnswerPlace::kContent) || reply > static_cast<uint32_t>(ReplyKind::kDeepSeek) ||
      choice > static_cast<uint32_t>(ToolChoice::kNamed))
    return bad("unknown way to bind an answer", r->position());
  out->bound = flags & 1;
  out->place = static_cast<AnswerPlace>(place);
  out->reply = static_cast<ReplyKind>(reply);
  out->choice = static_cast<ToolChoice>(choice);
  return {};
}

Status decode_head(uint32_t* version, ByteReader* r, Manifest* m) {
  if (!r->read(version)) return bad("no version", 0);
  if (*version > kManifestVersion) {  // no damage: the row's checksum was right
    return error(Code::kIncompatible, Detail::kStoreTooNew, "manifest version %u of a newer kvrt, this one knows %u", *version,
                 kManifestVersion);
  }
  if (*version < kManifestOldest) return bad("a version from before the first release", 0);
  uint32_t flags = 0;
  if (!r->read(&m->block_tokens) || !r->read(&flags)) return bad("cut short", r->position());
  m->share = flags & 1;
  for (Hash256* hash : {&m->text_id, &m->template_id}) {
    std::span<const uint8_t> part;
    if (!r->read_bytes(32, &part)) return bad("cut short", r->position());
    std::memcpy(hash->bytes.data(), part.data(), 32);
  }
  return {};
}

Status decode_pending(uint32_t vocab, ByteReader* r, Manifest* m) {
  uint32_t n = 0;
  std::span<const uint8_t> part;
  if (!r->read(&n) || !r->read_bytes(uint64_t{n} * 4, &part)) return bad("pending tokens cut short", r->position());
  m->pending.resize(n);
  if (n) std::memcpy(m->pending.data(), part.data(), part.size());
  for (int32_t token : m->pending) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocab) return bad("token out of range", r->position());
  }
  return {};
}

Status decode_messages(uint64_t tokens, ByteReader* r, Manifest* m) {
  uint32_t count = 0;
  if (!r->read(&count)) return bad("cut short", r->position());
  for (uint32_t i = 0; i < count; ++i) {
    Message message;
    uint32_t flags = 0;
    if (!r->read(&message.begin) || !r->read(&message.end) || !r->read(&flags) || !read_sized(r, &message.json))
      return bad("message cut short", r->position());
    if (message.begin > message.end || message.end > tokens) return bad("message outside the tokens", r->position());
    message.generated = flags & 1;
    m->messages.push_back(std::move(message));
  }
  return {};
}

}  // namespace

Result<Manifest> decode_manifest(std::span<const uint8_t> bytes, uint64_t node_tokens, uint32_t vocab) {
  ByteReader r(bytes);
  Manifest m;
  uint32_t version = 0;
  KVRT_TRY(decode_head(&version, &r, &m));
  KVRT_TRY(decode_pending(vocab, &r, &m));
  KVRT_TRY(decode_messages(node_tokens + m.pending.size(), &r, &m));
  for (std::string* json : {&m.arguments.tools, &m.arguments.documents, &m.arguments.variables}) {
    if (!read_sized(&r, json)) return bad("template arguments cut short", r.position());
  }
  if (!r.read(&m.arguments.now)) return bad("cut short", r.position());
  KVRT_TRY(decode_grammar(version, &r, &m.grammar));
  if (r.remaining()) return bad("bytes after the end", r.position());
  return m;
}

Result<Manifest> read_manifest(const SessionOut& saved, uint32_t vocab) {
  // A session that repair made from its chunks has no manifest.
  Manifest none;
  none.block_tokens = saved.block_tokens;
  auto manifest = saved.manifest.empty() ? Result<Manifest>(std::move(none)) : decode_manifest(saved.manifest, saved.tokens.size(), vocab);
  if (!manifest.is_ok()) return manifest.take_status().annotate("session " + saved.name);
  const size_t tokens = saved.tokens.size() + manifest->pending.size();
  if (tokens != saved.token_count) {
    return error(Code::kCorrupt, Detail::kFormat, "session %s: nodes and manifest hold %zu tokens, the catalog says %llu",
                 saved.name.c_str(), tokens, static_cast<unsigned long long>(saved.token_count));
  }
  for (const int32_t token : saved.tokens) {
    if (token >= 0 && static_cast<uint32_t>(token) < vocab) continue;
    return error(Code::kCorrupt, Detail::kFormat, "session %s: token %d, the vocabulary has %u", saved.name.c_str(), token, vocab);
  }
  return manifest;
}

Status check_manifest(const SessionOut& saved) { return read_manifest(saved, UINT32_MAX).take_status(); }

}  // namespace kvrt
