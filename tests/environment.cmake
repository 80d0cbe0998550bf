# ctest reads this before any test runs: no test writes weights into the cache of whoever runs it. An empty value alone would leave a variable
# that is not set as it is.
set(ENV{KVRT_CACHE} "none")
set(ENV{KVRT_CACHE} "")
# Nor any byte code into the sources.
set(ENV{PYTHONDONTWRITEBYTECODE} 1)
