package connectshare;

import static connectshare.Checks.equal;
import static connectshare.Checks.refused;
import static connectshare.Checks.same;
import static connectshare.Checks.that;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.producer.ProducerRecord;

/** What a worker's properties may be, and what stops it at start. */
final class SettingsChecks {
    private static final String SHARING = "connect.management.topic.sharing.support";
    private static final String NAME = "connectshare.TopicSharingInterceptor";

    private SettingsChecks() {
    }

    /** Everything that is wrong is found at start, and the message has the property and the remedy. */
    public static void refusals() {
        String[][] cases = {
            {"group.id", null, "group.id is missing"},
            {"group.id", "", "group.id is missing"},
            {"group.id", "a b", "only the characters A-Z a-z 0-9 . _ - are allowed; choose another group.id"},
            {"group.id", "connector-x", "it starts with 'connector-'"},
            {"group.id", "a.status-task-", "after a dot it goes on with 'status-task-'"},
            {"group.id", "a\u001b[31m\r\nb", "'a\\u001b[31m\\u000d\\u000ab' cannot be"},
            {"offset.storage.topic", "a\nb", "'a\\u000ab', which is no legal name of a topic"},
            {"config.storage.topic", "a*", "which is no legal name of a topic"},
            {"config.storage.topic", null, "config.storage.topic is missing"},
            {"status.storage.topic", null, "status.storage.topic is missing"},
            {"offset.storage.topic", " ", "offset.storage.topic is missing"},
            {"status.storage.topic", Worker.CONFIG, "each needs a topic of its own"},
            {"offset.storage.topic", Worker.STATUS + " ", "each needs a topic of its own"},
            {SHARING, "true", "has to be enabled or disabled"},
            {"connect.management.topic.sharing.encryption.key", "1:x", "encryption.key is no property of topic sharing; there are "},
            {"connectshare.overide.policy", "None", "connectshare.overide.policy is no property of topic sharing"},
            {SHARING, "enable", "has to be enabled or disabled"},
            {"interceptor.classes", NAME + "," + NAME, "2 times; it has to be there once"},
            {"interceptor.classes", " " + NAME + " , x.Y ," + NAME, "2 times; it has to be there once"},
            {"interceptor.classes", null, "add the line interceptor.classes=" + NAME},
            {"producer.interceptor.classes", NAME + "," + NAME, "producer.interceptor.classes has"},
            {"consumer.interceptor.classes", NAME + "," + NAME, "consumer.interceptor.classes has"},
            {"exactly.once.source.support", "enabled", "add the line producer.interceptor.classes=" + NAME},
            {"exactly.once.source.support", " ENABLED ", "add the line producer.interceptor.classes=" + NAME},
        };
        for (String[] one : cases) {
            String message = refused(() -> Worker.client(Worker.properties(one[0], one[1])), one[2]);
            that(message.chars().allMatch(c -> c >= 0x20 && c < 0x7f), message);
            refused(Sharing::ofOnlyWorker, "not for the worker's own");
        }
        refused(() -> Worker.client(Worker.properties("exactly.once.source.support", "enabled", "producer.interceptor.classes", NAME)),
            "add the line consumer.interceptor.classes=" + NAME);
        String message = refused(() -> Worker.client(Worker.properties(SHARING, "SECRET")), SHARING);
        that(!message.contains("SECRET"), message);
    }

    /** Words as Connect itself takes them: any case, blanks around; lists as text, names or classes. */
    public static void accepted() {
        List<Object> lists = Arrays.asList(NAME, " x.Y , " + NAME, Collections.singletonList(NAME), Arrays.asList(String.class, TopicSharingInterceptor.class));
        for (Object list : lists) {
            for (String word : new String[] {"enabled", " Enabled ", "ENABLED"}) {
                Map<String, Object> properties = Worker.properties(SHARING, word, "group.id", " com.acme ", "status.storage.topic", Worker.STATUS + " ");
                properties.put("interceptor.classes", list);
                properties.put("odd", new Object());
                properties.put("none", null);
                Worker.alive(Worker.client(properties), list + word);
                Worker.closeAll();
            }
        }
        try (Worker worker = new Worker("exactly.once.source.support", "enabled", "producer.interceptor.classes", "x.Y," + NAME,
                "consumer.interceptor.classes", NAME)) {
            Worker.alive(worker.first, "exactly once");
        }
        try (Worker worker = new Worker("exactly.once.source.support", "preparing")) {
            Worker.alive(worker.first, "preparing");
        }
    }

    /** Without the KIP's property everything passes, for connectors' clients too. */
    public static void disabled() {
        for (String word : new String[] {null, "", "disabled", " DISABLED "}) {
            try (Worker worker = new Worker(SHARING, word, "group.id", "connector-x")) {
                for (TopicSharingInterceptor client : new TopicSharingInterceptor[] {worker.first, Worker.connectorClient()}) {
                    for (String topic : Worker.TOPICS) {
                        for (Object key : Worker.HOSTILE_KEYS) {
                            ProducerRecord<Object, Object> record = Worker.toSend(topic, key, null);
                            same(client.onSend(record), record, "send");
                            ConsumerRecords<Object, Object> polled = Worker.poll(Worker.read(topic, 0, 0, key, null));
                            same(client.onConsume(polled), polled, "consume");
                        }
                    }
                }
                equal(CapturedLog.lines("INFO Topic sharing is off").size(), 1, CapturedLog.lines(""));
                equal(CapturedLog.lines("").size(), 1, CapturedLog.lines(""));
                CapturedLog.clear();
            }
        }
    }

    /** Clients of connectors find the worker; without one their task fails. */
    public static void clientsOfConnectors() {
        refused(Worker::connectorClient, "add the line interceptor.classes=" + NAME);
        try (Worker worker = new Worker()) {
            TopicSharingInterceptor client = Worker.connectorClient();
            Object key = Worker.goodKey(Worker.OFFSET, "x");
            equal(client.onSend(Worker.toSend(Worker.OFFSET, key, null)).key(), Worker.prefixed(Worker.GROUP, key), "offset");
            List<ConsumerRecord<Object, Object>> got = Worker.list(client.onConsume(Worker.poll(
                Worker.read(Worker.OFFSET, 0, 0, key, null), Worker.read(Worker.OFFSET, 0, 1, Worker.prefixed(Worker.GROUP, key), null))));
            equal(got.size(), 1, "offset");
            equal(got.get(0).key(), key, "offset");
            for (String topic : new String[] {Worker.CONFIG, Worker.STATUS, Worker.OTHER}) {
                for (Object hostile : Worker.HOSTILE_KEYS) {
                    ProducerRecord<Object, Object> record = Worker.toSend(topic, hostile, null);
                    same(client.onSend(record), record, topic);
                    ConsumerRecords<Object, Object> polled = Worker.poll(Worker.read(topic, 0, 0, hostile, null));
                    same(client.onConsume(polled), polled, topic);
                }
            }
        }
    }

    /** What a connector's overrides say cannot switch sharing off behind the worker's back. */
    public static void overridesOfConnectors() {
        String[][] overrides = {
            {SHARING, "disabled"}, {SHARING, ""}, {"offset.storage.topic", "x"}, {"config.storage.topic", ""},
            {"config.storage.topic", Worker.CONFIG, "status.storage.topic", Worker.STATUS, "offset.storage.topic", Worker.OFFSET},
        };
        try (Worker worker = new Worker()) {
            for (String[] override : overrides) {
                refused(() -> Worker.connectorClient(override), "the worker's own say that it is on");
            }
            refused(() -> Worker.connectorClient(SHARING, "enabled"), "group.id is missing");
            Worker.alive(worker.first, "worker");
            Worker.connectorClient();
        }
    }

    /** What would bypass the interceptor is said once for each connector, with nothing of its values. */
    public static void bypassesAreLogged() {
        try (Worker worker = new Worker("exactly.once.source.support", "enabled", "producer.interceptor.classes", NAME, "consumer.interceptor.classes", NAME)) {
            for (int i = 0; i < 3; i++) {
                for (String line : new String[] {"producer.override.interceptor.classes", "consumer.override.interceptor.classes"}) {
                    see(worker, "a\nb", "{\"properties\":{\"x\":\"" + line + "\",\"" + line + "\" : \"org.SECRET\"}}");
                    see(worker, "good", "{\"properties\":{\"" + line + "\":\"x.Y," + NAME + "\"}}");
                }
            }
            List<String> said = CapturedLog.lines("ERROR Connector 'a\\u000ab'");
            equal(said.size(), 2, CapturedLog.lines(""));
            equal(CapturedLog.lines("ERROR").size(), 2, CapturedLog.lines(""));
            that(!said.toString().contains("SECRET"), said);
        }
        CapturedLog.clear();
        try (Worker worker = new Worker()) {
            see(worker, "a", "{\"properties\":{\"offsets.storage.topic\":\"" + Worker.OFFSET + "\"}}");
            see(worker, "b", "{\"properties\":{\"offsets.storage.topic\":\"its-own\"}}");
            for (String odd : new String[] {"", "null", "{", "\"offsets.storage.topic\"", "\"offsets.storage.topic\" :", "\"offsets.storage.topic\":\"",
                "\"offsets.storage.topic\":7", "\"offsets.storage.topic\":\"\\\"", "\u0000"}) {
                see(worker, "c", odd);
            }
            worker.first.onConsume(Worker.poll(Worker.read(Worker.CONFIG, 0, 0, "com.acme.connector-d", 7)));
            equal(CapturedLog.lines("ERROR").size(), 1, CapturedLog.lines(""));
            Worker.alive(worker.first, "odd values");
        }
    }

    /** Only what puts plain keys into a shared topic is said; a sink's or an own topic's client may have what it likes. */
    public static void onlyRealBypassesAreLogged() {
        String override = "\"producer.override.interceptor.classes\":\"org.Tracing\"";
        String[] linesForConnectors = {"producer.interceptor.classes", NAME, "consumer.interceptor.classes", NAME};
        String[] exactlyOnce = {"exactly.once.source.support", "enabled", linesForConnectors[0], NAME, linesForConnectors[2], NAME};
        try (Worker worker = new Worker(exactlyOnce)) {
            see(worker, "sink", "{\"properties\":{\"topics\":\"a\"," + override + "}}");
            see(worker, "pattern", "{\"properties\":{\"topics.regex\":\"a.*\"," + override + "}}");
            see(worker, "own", "{\"properties\":{\"offsets.storage.topic\":\"its-own\"," + override + "}}");
            see(worker, "fine", "{\"properties\":{\"offsets.storage.topic\":\"" + Worker.OFFSET + "\"}}");
            equal(CapturedLog.lines("ERROR").size(), 0, CapturedLog.lines(""));
            see(worker, "config", "{\"properties\":{\"offsets.storage.topic\":\"" + Worker.CONFIG + "\"}}");
            see(worker, "both", "{\"properties\":{\"offsets.storage.topic\":\"" + Worker.OFFSET + "\"," + override + "}}");
            see(worker, "mirror", "{\"properties\":{\"connector.class\":\"org.MirrorX\",\"topics\":\"a\"," + override + "}}");
            equal(CapturedLog.lines("ERROR Connector 'mirror'").size(), 1, CapturedLog.lines(""));
            equal(CapturedLog.lines("ERROR Connector 'config'").size(), 1, CapturedLog.lines(""));
            equal(CapturedLog.lines("ERROR Connector 'both'").size(), 1, CapturedLog.lines(""));
        }
        CapturedLog.clear();
        try (Worker worker = new Worker(linesForConnectors)) {
            see(worker, "source", "{\"properties\":{" + override + "}}");
            see(worker, "fine", "{\"properties\":{\"offsets.storage.topic\":\"" + Worker.OFFSET + "\"}}");
            equal(CapturedLog.lines("ERROR").size(), 0, CapturedLog.lines(""));
            see(worker, "both", "{\"properties\":{\"offsets.storage.topic\":\"" + Worker.OFFSET + "\"," + override + "}}");
            equal(CapturedLog.lines("ERROR Connector 'both'").size(), 1, CapturedLog.lines(""));
        }
    }

    private static void see(Worker worker, String connector, String json) {
        equal(worker.first.onConsume(Worker.poll(
            Worker.read(Worker.CONFIG, 0, 0, "com.acme.connector-" + connector, Worker.bytes(json)))).count(), 1, connector);
    }
}
