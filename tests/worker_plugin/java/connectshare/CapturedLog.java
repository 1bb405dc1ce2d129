package connectshare;

import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.helpers.MessageFormatter;

/** What the plugin logged, and a log that fails on demand. */
public final class CapturedLog {
    private static final Queue<String> LINES = new ConcurrentLinkedQueue<>();
    private static volatile boolean broken;

    private CapturedLog() {
    }

    /** A logger that keeps lines of the plugin ("LEVEL text") and ignores those of Kafka. */
    public static Logger logger(String name) {
        boolean kept = name.startsWith("connectshare");
        return (Logger) Proxy.newProxyInstance(CapturedLog.class.getClassLoader(), new Class<?>[] {Logger.class},
            (proxy, method, arguments) -> {
                if (method.getName().equals("getName")) {
                    return name;
                }
                if (method.getReturnType() == boolean.class) {
                    return kept;
                }
                if (kept) {
                    if (broken) {
                        throw new IllegalStateException("the log is broken");
                    }
                    Object[] values = arguments.length == 2 && arguments[1] instanceof Object[] many
                        ? many : java.util.Arrays.copyOfRange(arguments, 1, arguments.length);
                    LINES.add(method.getName().toUpperCase() + " "
                        + MessageFormatter.arrayFormat((String) arguments[0], values).getMessage());
                }
                return null;
            });
    }

    /** Forgets all lines. */
    static void clear() {
        LINES.clear();
    }

    /** Lines that begin so. */
    static List<String> lines(String beginning) {
        return LINES.stream().filter(line -> line.startsWith(beginning)).collect(Collectors.toList());
    }

    /** Makes every call of the log throw, or not any more. */
    static void setBroken(boolean now) {
        broken = now;
    }
}
