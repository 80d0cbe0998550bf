#include "head.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "error.h"
#include "json.h"

namespace {

[[noreturn]] void bad(const std::string& what) { throw ApiError(400, what, "bad_request"); }

// Some of a client's text, for a message.
std::string quoted(std::string_view text) {
  JsonWriter w;
  return w.string(text.substr(0, 64)).take() + (text.size() > 64 ? "..." : "");
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_token(std::string_view text) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

std::string_view take_line(std::string_view* text) {
  const size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  text->remove_prefix(end == text->npos ? text->size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

struct Fields {
  std::multimap<std::string, std::string> by_name;  // in lower case

  std::string_view value(const char* name) const {
    const auto [begin, end] = by_name.equal_range(name);
    if (begin == end) return {};
    if (std::next(begin) != end) bad(std::string("expected one header ") + name + ", found " + std::to_string(by_name.count(name)));
    return begin->second;
  }
  // Members of a list, in lower case.
  bool lists(const char* name, std::string_view member) const {
    const auto [begin, end] = by_name.equal_range(name);
    for (auto it = begin; it != end; ++it) {
      std::string_view rest = it->second;
      while (!rest.empty()) {
        const size_t comma = std::min(rest.find(','), rest.size());
        if (lower(trim(rest.substr(0, comma))) == member) return true;
        rest.remove_prefix(std::min(comma + 1, rest.size()));
      }
    }
    return false;
  }
};

Fields read_fields(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const std::string_view line = take_line(&text);
    const size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    if (line.starts_with(' ') || line.starts_with('\t')) bad("a header over several lines is not taken: " + quoted(line));
    if (line.size() > kFieldBytesMax)
      throw ApiError(431,
                     "the header " + quoted(name) + " has " + std::to_string(line.size()) + " bytes, this server takes " +
                         std::to_string(kFieldBytesMax),
                     "header_too_large");
    if (colon == line.npos || !is_token(name)) bad("a header: expected NAME: VALUE, found " + quoted(line));
    const std::string_view value = trim(line.substr(colon + 1));
    const auto control = [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7F; };
    if (std::any_of(value.begin(), value.end(), control)) bad("the header " + quoted(name) + " has a control character");
    fields.by_name.emplace(lower(name), value);
  }
  return fields;
}

// "http://host:port/path" as its path; the host takes the place of the header's.
std::string_view take_host(std::string_view target, Fields* fields) {
  constexpr std::string_view kScheme = "http://";
  if (lower(target.substr(0, kScheme.size())) != kScheme) return target;
  target.remove_prefix(kScheme.size());
  const size_t end = std::min(target.find_first_of("/?"), target.size());
  const std::string_view host = target.substr(0, end);
  if (host.empty() || host.find('@') != host.npos) bad("the request target: expected http://HOST/PATH, found the host " + quoted(host));
  (void)fields->value("host");
  fields->by_name.erase("host");
  fields->by_name.emplace("host", host);
  return target.substr(end);
}

// Clients are told this server's address in several ways: two slashes may stand for one, one at the end, and /v1 may be missing before a path
// of the API. Other targets stay as they are: they are files.
std::string route_of(std::string_view target, std::string_view model) {
  const std::string_view query = target.substr(std::min(target.find('?'), target.size()));
  std::string path;
  for (const char c : target.substr(0, target.size() - query.size())) {
    if (c != '/' || !path.ends_with('/')) path += c;
  }
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path == "/v1" || path.starts_with("/v1/") || path == "/health" || path == "/metrics") return path + std::string(query);
  constexpr std::string_view kRoutes[] = {"/chat/completions", "/completions", "/embeddings", "/models", "/responses"};
  constexpr std::string_view kModels = "/models/", kResponse = "/responses/resp_";
  const std::string_view route = path;
  const bool one = (route.starts_with(kModels) && route.substr(kModels.size()) == model) ||
                   (route.starts_with(kResponse) && route.find('/', kResponse.size()) == route.npos);
  if (one || std::find(std::begin(kRoutes), std::end(kRoutes), route) != std::end(kRoutes)) return "/v1" + path + std::string(query);
  return std::string(target);
}

void read_framing(const Fields& fields, Head* head) {
  const std::string_view coding = fields.value("transfer-encoding"), length = fields.value("content-length");
  if (fields.by_name.count("transfer-encoding")) {
    if (fields.by_name.count("content-length")) bad("the request has Transfer-Encoding and Content-Length: expected one of them");
    if (head->old) bad("HTTP/1.0 has no Transfer-Encoding");
    if (lower(coding) != "chunked")
      throw ApiError(501, "Transfer-Encoding: chunked is supported, found " + quoted(coding), "unsupported_transfer_encoding");
    head->chunked = true;
  } else if (fields.by_name.count("content-length")) {
    uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
    const bool digits = !length.empty() && length.find_first_not_of("0123456789") == length.npos;
    if (!digits) bad("Content-Length: expected a number of bytes, found " + quoted(length));
    head->length = error == std::errc() ? bytes : UINT64_MAX;
  }
  head->type = lower(fields.value("content-type"));
  head->encoding = lower(fields.value("content-encoding"));
}

}  // namespace

Head read_head(std::string_view text, std::string_view model) {
  Head head;
  const std::string_view line = take_line(&text);
  const size_t first = line.find(' '), last = line.rfind(' ');
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  std::string_view target = first < last ? line.substr(first + 1, last - first - 1) : std::string_view();
  const auto visible = [](unsigned char c) { return c > 0x20 && c < 0x7F; };
  if (target.size() > kTargetBytesMax)
    throw ApiError(
        414, "the request target has " + std::to_string(target.size()) + " bytes, this server takes " + std::to_string(kTargetBytesMax),
        "target_too_long");
  if (!is_token(method) || target.empty() || !std::all_of(target.begin(), target.end(), visible) || !version.starts_with("HTTP/"))
    bad("the request line: expected METHOD TARGET HTTP/1.1, found " + quoted(line));
  if (version.size() != 8 || !version.starts_with("HTTP/1.") || !std::isdigit(static_cast<unsigned char>(version[7])))
    throw ApiError(505, "HTTP/1.1 and HTTP/1.0 are served, found " + quoted(version), "http_version_not_supported");
  constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};
  if (std::find(std::begin(kMethods), std::end(kMethods), method) == std::end(kMethods))
    throw ApiError(501, "the method " + quoted(method) + " is not known", "unknown_method");

  Fields fields = read_fields(text);
  head.old = version == "HTTP/1.0";
  head.last = head.old || fields.lists("connection", "close");
  target = take_host(target, &fields);
  if (!target.starts_with('/') && !target.starts_with('?') && !target.empty() && !(target == "*" && method == "OPTIONS"))
    bad("the request target: expected /PATH or http://HOST/PATH, found " + quoted(target));
  read_framing(fields, &head);
  if (const std::string_view expect = fields.value("expect"); !expect.empty() && !head.old) {
    head.waits = lower(expect) == "100-continue";
    if (!head.waits) throw ApiError(417, "Expect: 100-continue is supported, found " + quoted(expect), "expectation_failed");
  }
  // Of the header Range cpp-httplib would make parts of any answer.
  for (const char* name : {"connection", "expect", "range", "content-length", "transfer-encoding"}) fields.by_name.erase(name);
  head.text = std::string(method) + (target.starts_with('/') || target == "*" ? " " : " /") + route_of(target, model) + " " +
              (head.old ? "HTTP/1.0" : "HTTP/1.1") + "\r\n";
  for (const auto& [name, value] : fields.by_name) head.text += name + ": " + value + "\r\n";
  head.text += "\r\n";
  return head;
}

uint64_t read_chunk_size(std::string_view line) {
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  const std::string_view rest = trim({end, static_cast<size_t>(line.data() + line.size() - end)});
  if (error == std::errc::result_out_of_range) return UINT64_MAX;
  if (error != std::errc() || (!rest.empty() && !rest.starts_with(';')))
    bad("a chunk of the body: expected its size in hex digits, found " + quoted(line));
  return size;
}
