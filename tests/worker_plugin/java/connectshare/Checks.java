package connectshare;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.common.utils.Exit;

/** Runs every check of every class here and prints one line for each: {@code ok <name>} or {@code FAILED <name> <why>}. */
final class Checks {
    private static final Class<?>[] ALL = {
        SendChecks.class, ConsumeChecks.class, SettingsChecks.class, LifeChecks.class, ChainChecks.class,
        PolicyChecks.class, SealChecks.class,
    };
    // Codes with which the process would have ended.
    private static final LinkedBlockingQueue<Integer> EXITS = new LinkedBlockingQueue<>();
    private static long seed;

    private Checks() {
    }

    public static void main(String[] arguments) throws Exception {
        seed = Long.parseLong(arguments[0]);
        Exit.setExitProcedure((code, message) -> EXITS.add(code));
        Exit.setHaltProcedure((code, message) -> { });
        int failed = 0;
        for (Class<?> type : ALL) {
            Method[] methods = type.getDeclaredMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method method : methods) {
                if (Modifier.isPublic(method.getModifiers()) && method.getParameterCount() == 0) {
                    failed += run(type.getSimpleName() + "." + method.getName(), method);
                }
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    private static int run(String name, Method check) throws IllegalAccessException, InterruptedException {
        CapturedLog.clear();
        CapturedLog.setBroken(false);
        awaitExits();
        EXITS.clear();
        try {
            check.invoke(null);
            // Whatever a check does, it closes what it opened: the next one has to find no worker.
            refused(Sharing::ofOnlyWorker, "is set for the clients of connectors but not for the worker's own");
            System.out.println("ok " + name);
            return 0;
        } catch (InvocationTargetException | AssertionError failure) {
            Throwable cause = failure instanceof InvocationTargetException ? failure.getCause() : failure;
            System.out.println("FAILED " + name + " " + cause + "\n    " + where(cause));
            Worker.closeAll();
            return 1;
        }
    }

    private static String where(Throwable cause) {
        StringBuilder lines = new StringBuilder();
        for (StackTraceElement element : cause.getStackTrace()) {
            if (element.getClassName().startsWith("connectshare")) {
                lines.append(element).append("; ");
            }
        }
        return lines.toString();
    }

    private static void awaitExits() throws InterruptedException {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals("topic-sharing-exit")) {
                thread.join();
            }
        }
    }

    /** The process ends with code 1. */
    static void exits(Object about) throws InterruptedException {
        awaitExits();
        equal(EXITS.poll(), 1, about);
    }

    static void goesOn(Object about) throws InterruptedException {
        awaitExits();
        equal(EXITS.peek(), null, about);
    }

    static Random random() {
        return new Random(seed);
    }

    static void that(boolean holds, Object about) {
        if (!holds) {
            throw new AssertionError(String.valueOf(about));
        }
    }

    static void equal(Object found, Object expected, Object about) {
        if (!Objects.deepEquals(found, expected)) {
            throw new AssertionError(about + ": " + found + " instead of " + expected);
        }
    }

    static void same(Object found, Object expected, Object about) {
        if (found != expected) {
            throw new AssertionError(about + ": not the same object");
        }
    }

    /** The error that stops a worker, and nothing that Kafka's clients would swallow. */
    static TopicSharingError stops(Runnable action, Object about) {
        try {
            action.run();
        } catch (TopicSharingError expected) {
            return expected;
        } catch (Throwable other) {
            throw new AssertionError(about + ": " + other, other);
        }
        throw new AssertionError(about + ": passed");
    }

    /** A refusal at start, with these words in its message. */
    static String refused(Runnable action, String words) {
        try {
            action.run();
        } catch (org.apache.kafka.common.config.ConfigException expected) {
            that(expected.getMessage().contains(words), expected.getMessage() + " does not say: " + words);
            return expected.getMessage();
        }
        throw new AssertionError("not refused: " + words);
    }
}
