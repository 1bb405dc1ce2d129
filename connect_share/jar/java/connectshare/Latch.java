package connectshare;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Closes once, for good: after something unexpected nothing goes in or out any more.
 *
 * <p>That of a worker ends the process, as Connect does after an exception in the herder's thread. A worker that goes on without
 * reading is behind its group's assignment, and joins the group again and again.
 */
final class Latch {
    private static final Logger LOG = LoggerFactory.getLogger(TopicSharingInterceptor.class);
    private static final long REMIND_NS = TimeUnit.MINUTES.toNanos(1);
    // Connect's shutdown hook leaves the group and stops the tasks meanwhile; it may wait for a thread that waits for the exit.
    private static final long HALT_MS = TimeUnit.SECONDS.toMillis(30);

    private final String who;
    private final boolean endsProcess;
    private final AtomicReference<String> reason = new AtomicReference<>();
    private final AtomicLong remindedAt = new AtomicLong();

    private Latch(String who, boolean endsProcess) {
        this.who = who;
        this.endsProcess = endsProcess;
    }

    static Latch ofWorker() {
        return new Latch("this worker", true);
    }

    /** What a client of a connector does must not stop the worker. */
    static Latch ofClient(String who) {
        return new Latch(who, false);
    }

    boolean closed() {
        return reason.get() != null;
    }

    /** Closes the latch; returns the error to throw. */
    TopicSharingError close(String what, Throwable cause) {
        String message = what + "; nothing is read from or written to the shared topics by " + who + " any more, "
            + (endsProcess ? "the process ends, " : "") + "find the cause and restart it";
        if (reason.compareAndSet(null, message)) {
            remindedAt.set(System.nanoTime());
            try {
                LOG.error("Topic sharing stopped: {}", message, cause);
            } catch (RuntimeException unwritten) {
                // Kafka would swallow it, and the record would pass unchanged.
                return new TopicSharingError(message, unwritten);
            } finally {
                if (endsProcess) {
                    // Not in this thread: the shutdown hook waits for it.
                    run("topic-sharing-exit", 0, () -> Exit.exit(1));
                    run("topic-sharing-halt", HALT_MS, () -> Exit.halt(1));
                }
            }
        }
        return new TopicSharingError(message, cause);
    }

    /** Logs again, at most once a minute, why no record passes. */
    void remind() {
        long last = remindedAt.get();
        long now = System.nanoTime();
        if (now - last >= REMIND_NS && remindedAt.compareAndSet(last, now)) {
            LOG.error("Topic sharing is still stopped: {}", reason.get());
        }
    }

    /** Returns the error to throw for a record that must not be sent. */
    TopicSharingError refusal() {
        return new TopicSharingError("not sent, topic sharing is stopped: " + reason.get(), null);
    }

    private static void run(String name, long delayMs, Runnable end) {
        Thread thread = new Thread(() -> {
            try {
                Thread.sleep(delayMs);
            } catch (InterruptedException early) {
                LOG.debug("The process ends without waiting any longer", early);
            }
            end.run();
        }, name);
        thread.setDaemon(true);
        thread.start();
    }
}
