// Guards that the mutation check can switch off at run time: with any one of them off, the simulator's sweep must find a violation.
// In the product (no ONEPEN_TEST_HOOKS) guard_on is constexpr true and costs nothing.
//
// Each guard names the rule it carries. Use: `if (guard_on(Guard::b4_sequence) && seq != next) return void_object;`
#pragma once

namespace onepen {

#define ONEPEN_GUARDS(X) \
  X(fence_epoch)          /* an append of a closed epoch is refused (I2) */ \
  X(fence_claim_id)       /* same epoch, other claim id: refused */ \
  X(fence_sequence)       /* a sequence that skips is refused */ \
  X(fence_duplicate)      /* a sequence already applied is not applied again (I3) */ \
  X(fence_incarnation)    /* another incarnation is refused */ \
  X(claim_conditional)    /* a conditional claim checks its base */ \
  X(claim_rises)          /* a claim's epoch is above every epoch seen */ \
  X(claim_written_ahead)  /* a claim is synced to the local log before it is sent */ \
  X(claim_read_back)      /* ownership only when the answer or read-back shows our claim id */ \
  X(b1_one_create)        /* one create in flight */ \
  X(b2_own_put_id)        /* "exists" is read: own put id is success, never "fenced" */ \
  X(b2_same_bytes)        /* a lost answer is resent to the same id with the same bytes */ \
  X(b3_lowest_absent)     /* a claim goes to the lowest absent id */ \
  X(b4_current_only)      /* a data object counts only with current epoch, claim, sequence */ \
  X(b4_stop_at_absent)    /* the fold stops at the first absent id */ \
  X(dir_reader_syncs)     /* an object counts only once its folder is synced */ \
  X(dir_file_synced)      /* an object's bytes are synced before it gets its name */ \
  X(unknown_resend)       /* unknown is never taken for success or failure (I4) */ \
  X(withdraw_only_unsent) /* an append is taken back only when no attempt of it may have landed (I4) */ \
  X(takeover_reads_all)   /* an owner begins only after reading up to its own claim */ \
  X(self_claim_reads_first) /* a self-claim reads to the tail first: a foreign claim or commit ends it, and it claims over nothing unread */ \
  X(b5_claims_kept)       /* a trim deletes nothing but data that counts: claims, tombstones, histories and void objects stay for ever */ \
  X(b5_mark_first)        /* the mark is there before anything below it is deleted */ \
  X(b6_mark_after)        /* the mark is read after what was read, placed or taken as absent; above that, it does not count */ \
  X(copy_landed_by_sum)   /* a pending commit is taken for landed by the sums before and after it, never by its order alone (I9) */ \
  X(copy_place_checked)   /* a copy's acknowledged state is found by its place in the WAL and its sum; by the sum alone pending commits could be swallowed */ \
  X(doubt_written_again)  /* after a sync that failed, the bytes of a copy are written once more before anything is built upon them */ \
  X(append_stands)        /* on a directory an append looks whether the object before it is still there, before and after its create */ \
  X(snapshot_fits)        /* a snapshot counts, and is begun with, only when its pages have the page sum of its commit (I9) */ \
  X(wal_held)             /* SQLite begins its WAL anew, or deletes it, only when no commit in it is pending */ \
  X(local_published)      /* durability=local: a commit is sent only once SQLite has published it */ \
  X(self_claim_conditional) /* a claim that nobody asked for is over our own claim, exactly one epoch above */ \
  X(synced_confirms_after) /* synced() answers after a look at the stream begun after the last acknowledgement (I8) */ \
  X(silence_was_watched)  /* only time in which the owner was looked for counts as its silence */ \
  X(standby_conditional)  /* a standby claims only over the claim, and at the tail, that it watched */ \
  X(reset_final)          /* a reset handle accepts nothing more (I7) */ \
  X(claim_tail)           /* a claim over a tail lands only upon that tail */ \
  X(admin_sees_tail)      /* what an admin does to a stream happens only at the tail he saw */ \
  X(b7_floor_kept)        /* a new history keeps the epoch floor: no epoch is given twice (I5) */ \
  X(b7_voids_epoch)       /* a new history ends the epoch before it; only a claim counts after it */ \
  X(b7_cut)               /* what lies behind the common point of a restored history is no part of the stream */ \
  X(commit_fits)          /* a commit is applied only upon the database it was made on, and leaves the sum it says (I9) */ \
  X(reads_confirmed)      /* reads=confirmed: the home is asked after the read began (I8) */ \
  X(trimmed_to_salvage)   /* pending commits whose place was trimmed, and of which nothing says where they are, move to salvage */ \
  X(read_nothing_unsent)  /* a follower takes no copy with commits that are not in the stream (I9) */ \
  X(live_whole_batch)     /* a follower's readers see whole commits: the index of its WAL moves over a batch when all its frames are there (I9) */ \
  X(live_all_copied)      /* its WAL begins anew only when the database file has all of it (I9) */ \
  X(live_readers_free)    /* … and nobody reads from it (I9) */ \
  X(follow_reads_anew)    /* a follower whose place is gone reads the stream anew (I11) */ \
  X(wait_until_shown)     /* wait_for() answers when readers that begin see the offset (I8) */ \
  X(stale_refused)        /* max_staleness: a read begins only when the home was asked recently (I8) */

enum class Guard {
#define ONEPEN_GUARD(name) name,
  ONEPEN_GUARDS(ONEPEN_GUARD)
#undef ONEPEN_GUARD
};

#ifdef ONEPEN_TEST_HOOKS
bool guard_on(Guard);
void set_guard(Guard, bool on);             // test build only; not thread-safe: set before threads start
const char* guard_name(Guard);
bool guard_from_name(const char*, Guard&);
#else
constexpr bool guard_on(Guard) { return true; }
#endif

}  // namespace onepen
