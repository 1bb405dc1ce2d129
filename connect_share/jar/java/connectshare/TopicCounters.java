package connectshare;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/** Counters of one topic, shared by all clients of the worker. */
final class TopicCounters implements TopicCountersMBean {
    private static final long SAID_AT_FIRST = 100;
    private static final long SAY_NS = TimeUnit.MINUTES.toNanos(1);

    final LongAdder own = new LongAdder();
    final LongAdder foreign = new LongAdder();
    final LongAdder repeated = new LongAdder();
    final LongAdder rewritten = new LongAdder();
    private final AtomicLong refused = new AtomicLong();
    private final AtomicLong saidAt = new AtomicLong();
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

    /** Counts a record that is not accepted; returns whether to say so: the first ones, then one a minute. */
    boolean refuses() {
        long last = saidAt.get();
        long now = System.nanoTime();
        if (refused.incrementAndGet() <= SAID_AT_FIRST) {
            saidAt.set(now);
            return true;
        }
        return now - last >= SAY_NS && saidAt.compareAndSet(last, now);
    }

    @Override
    public long getRefusedRecords() {
        return refused.get();
    }

    @Override
    public long getRepeatedRecords() {
        return repeated.sum();
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
