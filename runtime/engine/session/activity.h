// A session's activity, by which its autosaves are due.
#pragma once

#include "runtime/engine/session/session.h"

namespace kvrt {

// Notes what the session has lost of what it had at the last save. True if it has gained so many tokens since, or tokens with KV: these may
// have come before it was computed. Under Engine's lock, as the next one. Of a session with autosave.
bool note_growth(Session* session);
// Notes activity of the session, and tells the saver when to look at it. Of a session without autosave it does nothing.
void note_activity(Session* session, Env* env);

}  // namespace kvrt
