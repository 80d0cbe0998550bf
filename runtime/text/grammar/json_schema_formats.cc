#include "runtime/text/grammar/json_schema_formats.h"

#include <algorithm>
#include <iterator>

namespace kvrt {

namespace {

#define MONTH_DAY "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP_YEAR "(?:(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26]))|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE "(?:" YEAR "-" MONTH_DAY "|" LEAP_YEAR "-02-29)"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 OCTET "(?:\\." OCTET "){3}"
// RFC 1123, with two hyphens in a row in IDNA's labels alone: xn--, what stands for itself and a hyphen, and digits of a number: three at
// least, the last below 26, a letter. Two labels of at most 63, five of at most 19.
#define IDNA_LABEL "xn--(?:[a-z0-9]{2,58}[a-z]|[a-z0-9]{1,20}-(?:[a-z0-9]{1,17}-)?[a-z0-9]{2,19}[a-z])"
#define LABEL "(?:[A-Za-z0-9](?:-?[A-Za-z0-9]){0,31}|[A-Za-z0-9]{1,63}|" IDNA_LABEL ")"
#define SHORT_LABEL "(?:[A-Za-z0-9](?:-?[A-Za-z0-9]){0,9}|[A-Za-z0-9]{1,19}|xn--(?:[a-z0-9]{1,7}-[a-z0-9]{2,6}|[a-z0-9]{2,14})[a-z])"
#define HOST_OF(shorts) LABEL "(?:\\." LABEL "(?:\\." SHORT_LABEL "){0," shorts "})?"
#define HOST HOST_OF("5")

#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                                          \
  "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 \
  ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16   \
  ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 ")?::)"

// RFC 3986. A host of only digits and dots is an address; an authority may be empty only before a path.
#define PCT "%[0-9A-Fa-f]{2}"
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define QUERY "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|" PCT ")*"
#define TAIL "(?:\\?" QUERY ")?(?:#" QUERY ")?"
#define AUTHORITY "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" PCT ")*@)?(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|" PCT ")*|\\[" IPV6 "\\])(?::[0-9]*)?"
#define PATH_ABEMPTY "(?:/" PCHAR "*)*"
#define PATH_ABSOLUTE "/(?:" PCHAR "+(?:/" PCHAR "*)*)?"
#define PATH_ROOTLESS PCHAR "+(?:/" PCHAR "*)*"
#define SCHEME "[A-Za-z][A-Za-z0-9+.-]*:"
#define URI SCHEME "(?://" AUTHORITY PATH_ABEMPTY "|" PATH_ABSOLUTE "|" PATH_ROOTLESS ")?" TAIL
#define SEGMENT_NC "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" PCT ")+"
#define RELATIVE "(?://" AUTHORITY PATH_ABEMPTY "|" PATH_ABSOLUTE "|" SEGMENT_NC "(?:/" PCHAR "*)*)?" TAIL

// The same with RFC 3987's characters beyond ASCII, those of the basic plane.
#define UCS "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef"
#define IPCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@" UCS "-]|" PCT ")"
#define IQUERY "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?" UCS "-]|" PCT ")*"
#define ITAIL "(?:\\?" IQUERY ")?(?:#" IQUERY ")?"
#define IAUTHORITY \
  "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:" UCS "-]|" PCT ")*@)?(?:(?:[A-Za-z0-9._~!$&'()*+,;=" UCS "-]|" PCT ")*|\\[" IPV6 "\\])(?::[0-9]*)?"
#define IPATH_ABEMPTY "(?:/" IPCHAR "*)*"
#define IPATH_ABSOLUTE "/(?:" IPCHAR "+(?:/" IPCHAR "*)*)?"
#define IPATH_ROOTLESS IPCHAR "+(?:/" IPCHAR "*)*"
#define IRI SCHEME "(?://" IAUTHORITY IPATH_ABEMPTY "|" IPATH_ABSOLUTE "|" IPATH_ROOTLESS ")?" ITAIL
#define ISEGMENT_NC "(?:[A-Za-z0-9._~!$&'()*+,;=@" UCS "-]|" PCT ")+"
#define IRELATIVE "(?://" IAUTHORITY IPATH_ABEMPTY "|" IPATH_ABSOLUTE "|" ISEGMENT_NC "(?:/" IPCHAR "*)*)?" ITAIL

#define ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
// At most 64 characters before the @, and 254 in all (RFC 5321's 256, without its brackets).
#define LOCAL_PART(n, dots) ATEXT "{1," n "}(?:\\." ATEXT "{1," n "})" dots
#define EMAIL "(?:" ATEXT "{1,64}|" LOCAL_PART("31", "") "|" LOCAL_PART("20", "{2}") "|" LOCAL_PART("15", "{3}") ")@" HOST_OF("3")

#define BRIEF_HOST SHORT_LABEL "(?:\\." SHORT_LABEL "){0,2}"
#define BRIEF_EMAIL "(?:" ATEXT "{1,32}|" ATEXT "{1,15}\\." ATEXT "{1,16})@" SHORT_LABEL "\\." SHORT_LABEL

// Regular expressions that every engine takes; groups within groups once.
#define RE_ESCAPE "\\\\[dDwWsSnrtfv.^$*+?()\\[\\]{}|/\\\\]"
#define RE_CLASS "\\[\\^?(?:a-z|A-Z|0-9|a-f|A-F|[A-Za-z0-9_ @%=:;,!#'\"<>`/.*+?()$]|" RE_ESCAPE ")+-?\\]"
#define RE_ATOM "[A-Za-z0-9_ @%&=:;,!#'\"<>~`/.-]|" RE_ESCAPE "|" RE_CLASS
#define RE_TIMES "(?:[*+?][?]?|\\{[0-9]{1,3},?\\}[?]?)?"
#define RE_GROUP(atom) "\\((?:\\?:)?" RE_WAYS(atom) "\\)"
#define RE_WAYS(atom) "\\^?(?:(?:" atom ")" RE_TIMES ")*\\$?(?:\\|\\^?(?:(?:" atom ")" RE_TIMES ")*\\$?)*"

#define DIGITS "[0-9]{1,9}"
#define DAYS DIGITS "D"
#define DURATION_TIME "T(?:" DIGITS "H(?:" DIGITS "M(?:" DIGITS "S)?)?|" DIGITS "M(?:" DIGITS "S)?|" DIGITS "S)"
#define DURATION_DATE "(?:" DIGITS "Y(?:" DIGITS "M(?:" DAYS ")?)?|" DIGITS "M(?:" DAYS ")?|" DAYS ")"

constexpr char kEmail[] = "^" EMAIL "$", kHostName[] = "^" HOST "$";

constexpr SchemaFormat kFormats[] = {
    {"date", "^" DATE "$", "^[0-9W-]*$"},
    {"time", "^" TIME "$", "^[0-9].*:"},
    {"date-time", "^" DATE "T" TIME "$", "^[0-9].*[Tt\\s].*:"},
    {"duration", "^P(?:" DURATION_DATE "(?:" DURATION_TIME ")?|" DURATION_TIME "|" DIGITS "W)$", "^[Pp]"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$", "[0-9a-fA-F]{12}"},
    {"ipv4", "^" IPV4 "$", "^[0-9a-fA-FxX.\\s]*$"},
    {"ipv6", "^" IPV6 "$", ":"},
    {"email", kEmail, "@"},
    {"hostname", kHostName, "^[^\\s@/:]*$"},
    {"uri", "^" URI "$", ":"},
    {"uri-reference", "^(?:" URI "|" RELATIVE ")$", "^"},
    {"iri", "^" IRI "$", ":"},
    {"iri-reference", "^(?:" IRI "|" IRELATIVE ")$", "^"},
    {"json-pointer", "^(?:/(?:[^/~]|~[01])*)*$", "^$|^/"},
    {"relative-json-pointer", "^(?:0|[1-9]{1,3})(?:#|(?:/(?:[^/~]|~[01])*)*)$", "^[0-9]"},
    {"idn-email", nullptr, "@"},
    {"idn-hostname", nullptr, "^"},
    {"uri-template", nullptr, "^"},
    {"regex", "^" RE_WAYS(RE_ATOM "|" RE_GROUP(RE_ATOM "|" RE_GROUP(RE_ATOM))) "$", "^"},
};

}  // namespace

const char* brief_format(std::string_view every) {
  return every == kEmail ? "^" BRIEF_EMAIL "$" : every == kHostName ? "^" BRIEF_HOST "$" : nullptr;
}

const SchemaFormat* find_schema_format(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const SchemaFormat& f) { return f.name == name; });
  return found == std::end(kFormats) ? nullptr : found;
}

}  // namespace kvrt
