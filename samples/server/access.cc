#include "access.h"

#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "error.h"

namespace {

constexpr size_t kSecretBytesMax = 256;

// Takes the same time for every text of a client's that is not too long.
bool equal(const std::string& secret, const std::string& given) {
  volatile unsigned differs = secret.size() != given.size();
  for (size_t i = 0; i < kSecretBytesMax; ++i) {
    const unsigned char a = i < secret.size() ? static_cast<unsigned char>(secret[i]) : 0;
    const unsigned char b = i < given.size() ? static_cast<unsigned char>(given[i]) : 0;
    differs = differs | (a ^ b);
  }
  return differs == 0;
}

// "Name:8080", "[::1]:8080" as "name" and "::1".
std::string name_of(std::string host) {
  std::transform(host.begin(), host.end(), host.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& host) {
  unsigned char out[16];
  return inet_pton(AF_INET, host.c_str(), out) == 1 || inet_pton(AF_INET6, host.c_str(), out) == 1;
}

bool has(const std::vector<std::string>& list, const std::string& what) { return std::find(list.begin(), list.end(), what) != list.end(); }

}  // namespace

bool is_loopback(const std::string& address) {
  in_addr v4;
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return address == "localhost" || address == "::1";
}

void Access::add_key(const std::string& domain, const std::string& secret) {
  const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.'; };
  if (domain.empty() || domain.size() > 64 || !std::all_of(domain.begin(), domain.end(), fits))
    throw std::runtime_error("a key's name has 1 to 64 letters, digits and -_. , found \"" + domain + "\"");
  if (secret.size() < 16 || secret.size() > kSecretBytesMax)
    throw std::runtime_error("the key of " + domain + " has " + std::to_string(secret.size()) + " characters, expected 16 to 256");
  for (const ApiKey& k : keys) {
    if (k.secret == secret) throw std::runtime_error("the keys of " + k.domain + " and " + domain + " are the same");
  }
  keys.push_back({domain, secret});
}

void Access::read_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::string name, secret, more;
    if (!(words >> name) || name.starts_with('#')) continue;
    if (!(words >> secret) || words >> more) throw std::runtime_error(path + ":" + std::to_string(number) + ": expected NAME KEY");
    add_key(name, secret);
  }
  if (keys.empty()) throw std::runtime_error(path + ": no line NAME KEY");
}

std::string Access::check_site(const httplib::Request& request) const {
  const std::string host = request.get_header_value("Host"), name = name_of(host);
  // A page whose name was pointed at this machine still has its own name here.
  // HTTP/1.0, which no browser speaks, may leave it out.
  const size_t hosts_found = request.get_header_value_count("Host");
  if (hosts_found == 0 && request.version == "HTTP/1.0" && !request.has_header("Origin")) return "";
  if (hosts_found != 1) throw ApiError(400, "expected one header Host, found " + std::to_string(hosts_found), "bad_request");
  if (name != "localhost" && !is_address(name) && !has(hosts, name))
    throw ApiError(403, "the header Host names \"" + name + "\"; --host allows more than localhost and addresses", "host_not_allowed");
  const std::string origin = request.get_header_value("Origin");
  if (has(origins, origin)) return origin;
  if (!request.has_header("Origin") || origin == "http://" + host) return "";
  throw ApiError(403, "pages of \"" + origin + "\" may not ask; --origin allows it", "origin_not_allowed");
}

const std::string& Access::domain(const httplib::Request& request) const {
  static const std::string kNone;
  if (keys.empty()) return kNone;
  const std::string header = request.get_header_value("Authorization");
  const std::string given = strncasecmp(header.c_str(), "Bearer ", 7) == 0 ? header.substr(7) : "";
  const ApiKey* found = nullptr;
  for (const ApiKey& k : keys) {
    if (equal(k.secret, given)) found = &k;
  }
  if (!found)
    throw ApiError(401, given.empty() ? "an API key is needed: Authorization: Bearer KEY" : "the API key is not known", "invalid_api_key");
  return found->domain;
}
