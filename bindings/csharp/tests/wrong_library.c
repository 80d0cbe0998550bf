// A library that answers to libkvrt's soname and is another: its ABI, or every struct's SIZE, or every field's OFFSET.
#include <stdint.h>

#define API __attribute__((visibility("default")))

API uint32_t kvrt_version(void);
API uint32_t kvrt_abi_version(void);
API uint32_t kvrt_struct_size(const char* name);
API uint32_t kvrt_struct_offset(const char* name, const char* field);

uint32_t kvrt_version(void) { return 1 << 8; }
uint32_t kvrt_abi_version(void) { return ABI; }
uint32_t kvrt_struct_size(const char* name) { return name[0] == 'k' ? SIZE : 0; }
uint32_t kvrt_struct_offset(const char* name, const char* field) { return name[0] == 'k' && field[0] != 0 ? OFFSET : 0; }
