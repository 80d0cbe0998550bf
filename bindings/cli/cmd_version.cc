// kvrt version: the versions that a bug report should name. And the files that are installed beside the program.
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "bindings/cli/commands.h"
#include "bindings/cli/tables.h"

namespace cli {

namespace {

kvrt_status write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  FILE* file = std::fopen(path.c_str(), "wb");
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((file && std::fclose(file) != 0) || !written)
    return complain(KVRT_IO, fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  return KVRT_OK;
}

kvrt_status write_pages(const Command& command, const std::filesystem::path& folder) {
  if (kvrt_status s = write_file(folder / (page_name(command) + ".1"), man_page(command, version_text()))) return s;
  for (const Command& sub : command.commands) {
    if (kvrt_status s = write_pages(sub, folder)) return s;
  }
  return KVRT_OK;
}

}  // namespace

std::string version_text() {
  const uint32_t version = kvrt_version();
  return fmt::format("{}.{}.{}", version >> 16, version >> 8 & 255, version & 255);
}

int cmd_version(bool json) {
  Runtime runtime;
  if (kvrt_status s = open_runtime({}, runtime)) return s;
  const Result<kvrt_runtime_props> props = runtime.info();
  if (kvrt_status s = checked(props.status(), "cannot read the runtime's properties")) return s;
  Json object, libraries;
  std::string lines;
  for (std::string_view left = props->libraries; !left.empty();) {  // "sqlite 3.40.1, zstd 1.5.4"
    const std::string_view library = left.substr(0, left.find(", "));
    left.remove_prefix(std::min(left.size(), library.size() + 2));
    const size_t space = std::min(library.find(' '), library.size());
    const std::string_view name = library.substr(0, space), version = library.substr(std::min(space + 1, library.size()));
    libraries.add(name, version);
    lines += fmt::format("{:<10} {}\n", name, version);
  }
  object.add("version", version_text()).add("abi", uint64_t{kvrt_abi_version()}).add("isa", props->isa).add("numerics", props->numerics);
  object.add("isa_tables", props->isa_tables).add("libraries", libraries);
  if (json) {
    object.print();
  } else {
    put("kvrt {}, ABI {}\n{:<10} {}, arithmetic {} ({})\n{}", version_text(), kvrt_abi_version(), "isa", props->isa, props->numerics,
        props->isa_tables, lines);
  }
  return finish(KVRT_OK);
}

int write_share(const Command& root, const std::string& directory) {
  const std::filesystem::path share = directory;
  if (kvrt_status s = write_pages(root, share / "man/man1")) return s;
  if (kvrt_status s = write_file(share / "bash-completion/completions/kvrt", completion(root, "bash"))) return s;
  if (kvrt_status s = write_file(share / "zsh/site-functions/_kvrt", completion(root, "zsh"))) return s;
  return write_file(share / "fish/vendor_completions.d/kvrt.fish", completion(root, "fish"));
}

}  // namespace cli
