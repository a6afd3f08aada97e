// What homes tell of a stream and of a Decision in the words of core/home.h. Positions are spelled by the home: offsets are left for it to fill in.
#pragma once
#include "core/fence.h"

namespace onepen::core {

// The newest owner of this incarnation; none when nobody owns it. `endpoint` is the home's to fill in (from the `ready` record).
std::optional<Owner> owner_of(const StreamState& state);

// Everything but tail and endpoint.
StreamStat stat_of(const StreamState& state);

// Of an ok() Decision about a claim. Everything but offset and requests.
ClaimReceipt claim_receipt_of(const Decision& decision);

// What a refused (or not ok) Decision is called towards a caller; `ours` is the request's epoch (0: none). Everything but tail. The message is a whole
// sentence that names the stream, both epochs and the current owner, and says what to do.
Refusal refusal_of(std::string_view stream, const StreamState& state, const Decision& decision, Epoch ours);

// How the fence calls what an admin asks for.
AdminAct act_of(HistoryAct act);

// Whether the namespace fence lets reads through; the outcome to answer with when not.
std::optional<Outcome> read_refusal(const StreamState& state);

}  // namespace onepen::core
