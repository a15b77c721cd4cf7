"""What becomes of a transaction whose calls meet errors, and what may be done next.

**What to do** (`remedy_of`). librdkafka says itself which of three an error is:

- *retriable*: the call may be made again, or goes on in the background;
- *abortable* (`txn_requires_abort`): this transaction is lost, the next one may succeed;
- *fatal*: this client is of no more use, as one that was fenced.

Source: librdkafka, INTRODUCTION.md, "Transactional producer", and rdkafka.h,
`rd_kafka_error_is_retriable` and its kin. What is none of the three is taken as fatal: a new client
with the same transactional id is always safe, for its first call aborts whatever is open (KIP-98).

**What is known** (`txn_outcome`). Only an acknowledged commit is OK. A transaction is FAIL if

- its commit was never tried: only EndTxn(commit) commits, and the coordinator aborts by itself what
  nobody ends (KIP-98, transaction.timeout.ms);
- its commit was tried after a send of it had failed: librdkafka then refuses it locally, before
  EndTxn (`rd_kafka_commit_transaction`, rdkafka_txnmgr.c);
- before its commit was tried, another client had finished `init_transactions` with its id. That
  aborts what was open and raises the epoch, so the coordinator refuses the old client
  (KIP-98, fencing of zombies).

All else is INFO. Most of all a commit that was tried and not answered: its EndTxn may have been
carried out before the coordinator died (a commit that times out goes on in the background). Also a
commit that was refused and an abort that succeeded afterwards: librdkafka may have "aborted" by
asking for a new epoch (KIP-360), which waits for a commit under way and says nothing of it.
"""

from typing import Literal

from confluent_kafka import KafkaError

from harness.core.op import OpType

Remedy = Literal["retry", "abort", "replace"]


def remedy_of(error: KafkaError) -> Remedy:
    """Return what may be done after a call for transactions failed.

    Returns:
        "retry" the call, "abort" the transaction, or "replace" the client.
    """
    if error.fatal():
        return "replace"
    if error.txn_requires_abort():
        return "abort"
    return "retry" if error.retriable() else "replace"


def txn_outcome(
    *, committed: bool, commit_tried: bool, send_failed: bool, taken_over: bool
) -> OpType:
    """Return what is known of a transaction.

    Args:
        committed: its commit was acknowledged.
        commit_tried: its commit was asked for.
        send_failed: a delivery report had told of a failure, at the latest while committing.
        taken_over: before it was, another client had taken over the transactional id.
    """
    if committed:
        return OpType.OK
    definite = not commit_tried or send_failed or taken_over
    return OpType.FAIL if definite else OpType.INFO
