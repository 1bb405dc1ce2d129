package connectshare;

/**
 * Something the interceptor cannot handle safely.
 *
 * <p>An {@link Error} on purpose: Kafka's clients swallow exceptions of interceptors and let the record through unchanged.
 */
final class TopicSharingError extends Error {
    private static final long serialVersionUID = 1L;

    TopicSharingError(String message, Throwable cause) {
        super(message, cause);
    }
}
