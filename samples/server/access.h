// Who may ask: API keys, each with a domain of its own, and the browser's headers Host and Origin.
#pragma once

#include <httplib.h>

#include <string>
#include <vector>

struct ApiKey {
  std::string domain, secret;
};

class Access {
 public:
  std::vector<ApiKey> keys;          // none: everybody may ask
  std::vector<std::string> hosts;    // names beside localhost and IP addresses
  std::vector<std::string> origins;  // other pages that may ask

  // Adds the lines "NAME KEY" of a file. Throws std::runtime_error.
  void read_keys(const std::string& path);
  void add_key(const std::string& domain, const std::string& secret);

  // Throws ApiError where Host or Origin is another site's. The origin of one of `origins`, which its browser has to be told; else "".
  std::string check_site(const httplib::Request& request) const;
  // The domain of the request's key; "" where there are no keys. Throws ApiError.
  const std::string& domain(const httplib::Request& request) const;
};

// True for an address that only this machine reaches.
bool is_loopback(const std::string& address);
