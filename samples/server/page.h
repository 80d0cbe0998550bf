// The page at the server's root. Its files are in the program.
#pragma once

#include <httplib.h>

#include <span>

struct PageFile {
  const char *path, *type;
  const unsigned char* data;
  size_t size;
};
std::span<const PageFile> page_files();  // embed.cmake makes its source

// Routes of the page's files. It needs no key: what it shows, it asks for with the key that the user gives it.
void add_page(httplib::Server* server);
// Answers with a text that the client may have already: 304 then.
void send_fresh(const httplib::Request& request, httplib::Response& response, const std::string& text, const char* type);
