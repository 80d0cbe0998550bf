// A host may carry a copy of a library that libkvrt needs too: a static archive, as Go or Rust bundle them. If it exports the copy's
// symbols, the dynamic linker binds libkvrt's calls to them, whatever their version: in the order of lookup a program comes before our
// libraries. So the addresses that the linker wrote into our relocations are compared with those that the libraries of our DT_NEEDED
// define. A libkvrt that holds its libraries needs none of them, and imports none of their symbols.
#include "runtime/base/host_symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace kvrt {
namespace {

struct Library {
  const char* name;
  const char* soname;   // up to its number
  const char* version;  // the function that gives it
};
constexpr Library kLibraries[] = {{"SQLite", "libsqlite3.so.", "sqlite3_libversion"},
                                  {"zstd", "libzstd.so.", "ZSTD_versionString"},
                                  {"PCRE2", "libpcre2-8.so.", "pcre2_config_8"},
                                  {"libsodium", "libsodium.so.", "sodium_version_string"}};
constexpr uint32_t kPcre2Version = 11;  // PCRE2_CONFIG_VERSION

// A symbol of another object, as the dynamic linker bound it.
struct Import {
  const char* name;
  void* bound;
};

// The object that has the address; null: none has.
const link_map* object_of(const void* address, const ElfW(Sym) ** symbol = nullptr) {
  Dl_info info{};
  void* found = nullptr;
  if (symbol && dladdr1(address, &info, &found, RTLD_DL_SYMENT)) *symbol = static_cast<const ElfW(Sym)*>(found);
  return dladdr1(address, &info, &found, RTLD_DL_LINKMAP) ? static_cast<const link_map*>(found) : nullptr;
}

struct Close {
  void operator()(void* handle) const { dlclose(handle); }
};
using Handle = std::unique_ptr<void, Close>;

// A loaded object by its name in its link_map or in a DT_NEEDED; "" is the program.
Handle loaded(const char* name) { return Handle(dlopen(*name ? name : nullptr, RTLD_LAZY | RTLD_NOLOAD)); }

const link_map* object_of(const Handle& handle) {
  const link_map* map = nullptr;
  return handle && dlinfo(handle.get(), RTLD_DI_LINKMAP, &map) == 0 ? map : nullptr;
}

std::string file_of(const link_map* map) {
  if (*map->l_name) return map->l_name;
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "the program";
}

// The version and the file of an object's copy: "3.40.1 of /usr/lib/libsqlite3.so.0".
std::string describe(const Library& library, const Handle& handle, const link_map* map) {
  void* function = handle ? dlsym(handle.get(), library.version) : nullptr;
  std::string version = "an unknown version";  // the object has a part of the library only
  if (function && object_of(function) == map) {
    char text[64] = "";
    if (std::strcmp(library.version, "pcre2_config_8") != 0) {
      version = reinterpret_cast<const char* (*)()>(function)();
    } else if (reinterpret_cast<int (*)(uint32_t, void*)>(function)(kPcre2Version, text) >= 0) {
      version = text;
    }
  }
  return version + " of " + file_of(map);
}

const link_map* own_object() {
  static const char here = 0;
  return object_of(&here);
}

// Our own DT_NEEDED, and the functions that we import.
void read_own(std::vector<const char*>* needed, std::vector<Import>* imports) {
  const link_map* own = own_object();
  if (!own || !own->l_ld) return;
  ElfW(Addr) strings = 0, symbols = 0, tables[2] = {};
  size_t sizes[2] = {};
  for (const ElfW(Dyn)* d = own->l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_STRTAB) strings = d->d_un.d_ptr;
    if (d->d_tag == DT_SYMTAB) symbols = d->d_un.d_ptr;
    if (d->d_tag == DT_JMPREL) tables[0] = d->d_un.d_ptr;
    if (d->d_tag == DT_PLTRELSZ) sizes[0] = d->d_un.d_val;
    if (d->d_tag == DT_RELA) tables[1] = d->d_un.d_ptr;
    if (d->d_tag == DT_RELASZ) sizes[1] = d->d_un.d_val;
  }
  if (!strings || !symbols) return;
  const char* text = reinterpret_cast<const char*>(strings);
  for (const ElfW(Dyn)* d = own->l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_NEEDED) needed->push_back(text + d->d_un.d_val);
  }
  for (int t = 0; t < 2; ++t) {
    const auto* rows = reinterpret_cast<const ElfW(Rela)*>(tables[t]);
    for (size_t i = 0; rows && i < sizes[t] / sizeof *rows; ++i) {
      const auto type = ELF64_R_TYPE(rows[i].r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;  // calls, also those of -fno-plt
      const ElfW(Sym)& symbol = reinterpret_cast<const ElfW(Sym)*>(symbols)[ELF64_R_SYM(rows[i].r_info)];
      const char* name = text + symbol.st_name;
      if (symbol.st_shndx != SHN_UNDEF || *name == '_') continue;  // ours, C++'s and the compiler's
      imports->push_back({name, *reinterpret_cast<void**>(own->l_addr + rows[i].r_offset)});
    }
  }
}

// The object, other than `map`, that the first import taken over is bound to; null: none was. An undefined symbol with an address is a
// program's own way into the library, which it has if it takes a function's address. Our own object: the call is bound when it is made
// first (without -z now).
const link_map* taken_over(const Handle& handle, const link_map* map, const std::vector<Import>& imports, const char** name) {
  for (const Import& import : imports) {
    const void* theirs = dlsym(handle.get(), import.name);
    if (!theirs || theirs == import.bound || object_of(theirs) != map) continue;  // bound as it should be, or of another library
    const ElfW(Sym)* symbol = nullptr;
    const link_map* other = object_of(import.bound, &symbol);
    if (!other || other == map || other == own_object() || (symbol && symbol->st_shndx == SHN_UNDEF)) continue;
    *name = import.name;
    return other;
  }
  return nullptr;
}

std::string look() {
  std::vector<const char*> needed;
  std::vector<Import> imports;
  read_own(&needed, &imports);
  std::string found;
  for (const char* soname : needed) {
    for (const Library& library : kLibraries) {
      if (std::strncmp(soname, library.soname, std::strlen(library.soname)) != 0) continue;
      const Handle handle = loaded(soname);
      const link_map* map = object_of(handle);
      const char* symbol = nullptr;
      const link_map* other = map ? taken_over(handle, map, imports, &symbol) : nullptr;
      if (!other) continue;
      if (!found.empty()) found += "; ";
      found += std::string(library.name) + " (" + symbol + "): found " + describe(library, loaded(other->l_name), other) + ", expected " +
               describe(library, handle, map);
    }
  }
  dlerror();  // a symbol that was not found is no error of the host's
  return found;
}

}  // namespace

Status check_host_symbols() {
  static const std::string found = look();
  if (found.empty()) return {};
  return error(
      Code::kUnsupported, Detail::kNone,
      "the host's copy of a library takes kvrt's calls: %s. Use a libkvrt that holds its libraries (KVRT_STATIC_DEPS; the wheel and the "
      "tarball do), or link the host's copy with -Wl,--exclude-libs,ALL",
      found.c_str());
}

}  // namespace kvrt
