// With KVRT_TEST_LOCALE a test runs under the locale of its environment, as a host does that calls setlocale. It must have a comma for a
// point, so that no test passes because the locale is missing.
#pragma once

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void support_locale(void) {
  if (getenv("KVRT_TEST_LOCALE") == NULL) return;
  char half[8] = "";
  if (setlocale(LC_ALL, "") != NULL) snprintf(half, sizeof half, "%.1f", 0.5);
  if (strcmp(half, "0,5") == 0) return;
  printf("KVRT_TEST_LOCALE: LC_ALL=%s of LOCPATH=%s is not in force: 0.5 is printed as %s\n", getenv("LC_ALL"), getenv("LOCPATH"), half);
  exit(1);
}
