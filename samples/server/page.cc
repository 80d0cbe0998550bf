#include "page.h"

namespace {

// Scripts and styles come from these files alone, and no text becomes markup: the browser refuses innerHTML and its like.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

std::string tag_of(std::string_view text) {
  uint64_t h = 0xCBF29CE484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  h ^= h >> 29;
  char tag[32];
  std::snprintf(tag, sizeof tag, "\"%016llx\"", static_cast<unsigned long long>(h));
  return tag;
}

}  // namespace

void send_fresh(const httplib::Request& request, httplib::Response& response, const std::string& text, const char* type) {
  const std::string tag = tag_of(text);
  response.set_header("ETag", tag);
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Referrer-Policy", "no-referrer");
  if (request.get_header_value("If-None-Match") == tag)
    response.status = 304;
  else
    response.set_content(text, type);
}

void add_page(httplib::Server* server) {
  for (const PageFile& file : page_files()) {
    const std::string text(reinterpret_cast<const char*>(file.data), file.size);
    server->Get(file.path, [text, type = file.type](const httplib::Request& request, httplib::Response& response) {
      response.set_header("Content-Security-Policy", kPolicy);
      response.set_header("Cross-Origin-Opener-Policy", "same-origin");
      response.set_header("Cross-Origin-Resource-Policy", "same-origin");
      response.set_header("Cache-Control", "no-cache");
      send_fresh(request, response, text, type);
    });
  }
}
