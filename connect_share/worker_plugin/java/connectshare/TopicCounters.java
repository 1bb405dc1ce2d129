package connectshare;

import java.util.concurrent.atomic.LongAdder;

/** Counters of one topic, shared by all clients of the worker. */
final class TopicCounters implements TopicCountersMBean {
    final LongAdder own = new LongAdder();
    final LongAdder foreign = new LongAdder();
    final LongAdder rewritten = new LongAdder();
    private final Latch latch;

    TopicCounters(Latch latch) {
        this.latch = latch;
    }

    @Override
    public long getOwnRecords() {
        return own.sum();
    }

    @Override
    public long getForeignRecords() {
        return foreign.sum();
    }

    @Override
    public long getRewrittenRecords() {
        return rewritten.sum();
    }

    @Override
    public boolean isStopped() {
        return latch.closed();
    }
}
