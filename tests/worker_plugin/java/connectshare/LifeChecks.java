package connectshare;

import static connectshare.Checks.equal;
import static connectshare.Checks.exits;
import static connectshare.Checks.goesOn;
import static connectshare.Checks.refused;
import static connectshare.Checks.same;
import static connectshare.Checks.stops;
import static connectshare.Checks.that;

import java.lang.management.ManagementFactory;
import java.util.Set;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** From the first client of a worker to the last: counters, latches, closing. */
final class LifeChecks {
    private static final MBeanServer BEANS = ManagementFactory.getPlatformMBeanServer();

    private LifeChecks() {
    }

    static Object counter(String topic, String name) throws Exception {
        return BEANS.getAttribute(new ObjectName("connectshare:type=TopicCounters,group=com.acme,topic=" + topic), name);
    }

    private static Set<ObjectName> beans() throws Exception {
        return BEANS.queryNames(new ObjectName("connectshare:*"), null);
    }

    /** The counters are exact, all clients together, and go with the last of them. */
    public static void counters() throws Exception {
        try (Worker worker = new Worker()) {
            TopicSharingInterceptor second = worker.client();
            equal(beans().size(), 3, beans());
            int n = 1;
            for (String topic : Worker.TOPICS) {
                Object key = Worker.goodKey(topic, "x");
                for (int i = 0; i < n; i++) {
                    worker.first.onSend(Worker.toSend(topic, key, null));
                    second.onSend(Worker.toSend(topic, key, null));
                    second.onConsume(Worker.poll(Worker.read(topic, 0, 0, Worker.prefixed("com.acme", key), null),
                        Worker.read(topic, 1, 1, key, null), Worker.read(topic, 1, 2, null, null), Worker.read(Worker.OTHER, 1, 2, null, null)));
                }
                n *= 10;
            }
            n = 1;
            for (String topic : Worker.TOPICS) {
                equal(counter(topic, "RewrittenRecords"), 2L * n, topic);
                equal(counter(topic, "OwnRecords"), (long) n, topic);
                equal(counter(topic, "ForeignRecords"), 2L * n, topic);
                equal(counter(topic, "Stopped"), false, topic);
                n *= 10;
            }
            stops(() -> second.onConsume(Worker.poll(Worker.read(Worker.STATUS, 0, 0, 7, null))), "stop");
            for (String topic : Worker.TOPICS) {
                equal(counter(topic, "Stopped"), true, topic);
            }
            worker.first.close();
            worker.first.close();
            equal(beans().size(), 3, "one client is left");
        }
        equal(beans().size(), 0, beans());
        equal(CapturedLog.lines("INFO Topic sharing is on").size(), 1, CapturedLog.lines(""));
        equal(CapturedLog.lines("").size(), 2, CapturedLog.lines(""));
    }

    /** A closed client is of no use any more, but lets no plain key through either. */
    public static void closed() {
        Worker worker = new Worker();
        Worker.closeAll();
        Worker.alive(worker.first, "closed");
    }

    /** A second worker in a JVM, of another group or with other topics, is refused; the first goes on, and so do its connectors. */
    public static void aSecondWorker() throws Exception {
        try (Worker worker = new Worker()) {
            for (String[] other : new String[][] {{"group.id", "victim"}, {"offset.storage.topic", "x"}}) {
                String said = refused(() -> Worker.client(Worker.properties(other)), "the worker of this JVM is of 'com.acme'");
                that(CapturedLog.lines("ERROR Refused a client").get(0).contains(said), CapturedLog.lines(""));
                CapturedLog.clear();
            }
            refused(() -> Worker.connectorClient(
                "connect.management.topic.sharing.support", "enabled", "group.id", "victim", "config.storage.topic", Worker.CONFIG,
                "status.storage.topic", Worker.STATUS, "offset.storage.topic", Worker.OFFSET), "it is of cluster group 'victim'");
            Object key = Worker.goodKey(Worker.OFFSET, "x");
            equal(Worker.connectorClient().onSend(Worker.toSend(Worker.OFFSET, key, null)).key(), Worker.prefixed("com.acme", key), "good");
            equal(beans().size(), 3, beans());
            equal(counter(Worker.CONFIG, "Stopped"), false, "first");
        }
        equal(beans().size(), 0, beans());
    }

    /** The first reason stays, and is said once however many threads meet trouble at a time. */
    public static void aLatchClosesOnce() throws Exception {
        Latch latch = Latch.ofWorker();
        that(!latch.closed(), "open");
        that(latch.close("first trouble", null).getMessage().startsWith("first trouble; nothing is read"), "first");
        exits("first");
        latch.close("second trouble", new IllegalStateException());
        latch.remind();
        that(latch.closed() && latch.refusal().getMessage().contains("first trouble"), latch.refusal().getMessage());
        equal(CapturedLog.lines("ERROR").size(), 1, CapturedLog.lines(""));
        goesOn("second");
    }

    /** What stops a connector's client does not stop the worker; what stops the worker stops them all. */
    public static void latches() throws Exception {
        try (Worker worker = new Worker()) {
            TopicSharingInterceptor bad = Worker.connectorClient();
            TopicSharingInterceptor good = Worker.connectorClient();
            stops(() -> bad.onSend(Worker.toSend(Worker.OFFSET, "plain", null)), "plain");
            Object key = Worker.goodKey(Worker.OFFSET, "x");
            stops(() -> bad.onSend(Worker.toSend(Worker.OFFSET, key, null)), "after plain");
            equal(bad.onConsume(Worker.poll(Worker.read(Worker.OFFSET, 0, 0, Worker.prefixed("com.acme", key), null))).count(), 0, "after plain");
            equal(good.onSend(Worker.toSend(Worker.OFFSET, key, null)).key(), Worker.prefixed("com.acme", key), "good");
            Worker.alive(worker.first, "worker");
            that(CapturedLog.lines("ERROR").get(0).contains("by this client of a connector"), CapturedLog.lines("ERROR"));

            goesOn("connector");
            stops(() -> worker.first.onSend(Worker.toSend(Worker.CONFIG, 7, null)), "worker");
            exits("worker");
            stops(() -> good.onSend(Worker.toSend(Worker.OFFSET, key, null)), "good");
            equal(good.onConsume(Worker.poll(Worker.read(Worker.OFFSET, 0, 0, Worker.prefixed("com.acme", key), null))).count(), 0, "good");
            var other = Worker.toSend(Worker.OTHER, 7, 7);
            same(good.onSend(other), other, "data");
        }
    }
}
