package connectshare;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Closes once, for good: after something unexpected nothing goes in or out any more. */
final class Latch {
    private static final Logger LOG = LoggerFactory.getLogger(TopicSharingInterceptor.class);
    private static final long REMIND_NS = TimeUnit.MINUTES.toNanos(1);

    private final String who;
    private final AtomicReference<String> reason = new AtomicReference<>();
    private final AtomicLong remindedAt = new AtomicLong();

    Latch(String who) {
        this.who = who;
    }

    boolean closed() {
        return reason.get() != null;
    }

    /** Closes the latch; returns the error to throw. */
    TopicSharingError close(String what, Throwable cause) {
        String message = what + "; nothing is read from or written to the shared topics by " + who + " any more, "
            + "find the cause and restart it";
        if (reason.compareAndSet(null, message)) {
            remindedAt.set(System.nanoTime());
            try {
                LOG.error("Topic sharing stopped: {}", message, cause);
            } catch (RuntimeException unwritten) {
                // Kafka would swallow it, and the record would pass unchanged.
                return new TopicSharingError(message, unwritten);
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
}
