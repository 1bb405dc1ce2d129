package connectshare;

import static connectshare.Checks.equal;
import static connectshare.Checks.exits;
import static connectshare.Checks.goesOn;
import static connectshare.Checks.refused;
import static connectshare.Checks.same;
import static connectshare.Checks.stops;
import static connectshare.Checks.that;
import static connectshare.Worker.bytes;
import static connectshare.Worker.list;
import static connectshare.Worker.poll;
import static connectshare.Worker.read;
import static connectshare.Worker.toSend;

import connectshare.GroupKeys.TopicType;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Values of a group with keys: what goes out, what is accepted, what is refused, what stops the worker. */
final class SealChecks {
    private static final String KEYS = "connect.management.topic.sharing.encryption.keys";
    private static final String MODE = "connect.management.topic.sharing.encryption";
    private static final String SHARING = "connect.management.topic.sharing.support";
    private static final String SEVEN = keys(7);
    private static final byte[] NULL = bytes("null");
    private static final byte[] VALUE = bytes("{\"password\":\"SECRET\"}");
    private static final TopicType[] TYPES = {TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET};

    private SealChecks() {
    }

    private static String keys(int... ids) {
        StringBuilder text = new StringBuilder();
        for (int id : ids) {
            byte[] key = new byte[32];
            Arrays.fill(key, (byte) id);
            text.append(text.length() == 0 ? "" : ",").append(Integer.toUnsignedString(id)).append(':')
                .append(Base64.getEncoder().encodeToString(key));
        }
        return text.toString();
    }

    private static Worker worker(String... more) {
        String[] all = Arrays.copyOf(more, more.length + 2);
        all[more.length] = KEYS;
        all[more.length + 1] = SEVEN;
        return new Worker(all);
    }

    private static byte[] wire(Object key) {
        return key instanceof String ? bytes((String) key) : (byte[]) key;
    }

    private static byte[] sealed(String keys, int type, Object wireKey, byte[] value, long writtenMs) {
        try {
            return new Seal(new KeyRing(keys)).seal(TYPES[type], wire(wireKey), value, writtenMs);
        } catch (GeneralSecurityException impossible) {
            throw new AssertionError(impossible);
        }
    }

    private static Object ownKey(int type, String name) {
        return Worker.prefixed(Worker.GROUP, Worker.goodKey(Worker.TOPICS[type], name));
    }

    /** Reads one record as Connect's own thread for the topic does, which is not that of the start. */
    private static List<ConsumerRecord<Object, Object>> later(TopicSharingInterceptor client, ConsumerRecord<Object, Object> record) {
        return inThread(() -> list(client.onConsume(poll(record))));
    }

    private static <T> T inThread(Callable<T> action) {
        FutureTask<T> task = new FutureTask<>(action);
        new Thread(task).start();
        try {
            return task.get();
        } catch (Exception failed) {
            throw new AssertionError(failed);
        }
    }

    private static void accepted(TopicSharingInterceptor client, int type, byte[] value, byte[] expected) {
        List<ConsumerRecord<Object, Object>> got = later(client, read(Worker.TOPICS[type], 0, 3, ownKey(type, "x"), value));
        equal(got.size(), 1, "records of " + TYPES[type]);
        equal(got.get(0).key(), Worker.goodKey(Worker.TOPICS[type], "x"), "key");
        equal(got.get(0).value(), expected, "value");
        equal(got.get(0).offset(), 3L, "offset");
        equal(got.get(0).timestamp(), 5L, "timestamp");
        equal(got.get(0).serializedValueSize(), expected == null ? -1 : expected.length, "size");
        equal(got.get(0).serializedKeySize(), wire(got.get(0).key()).length, "size of the key");
    }

    private static void refuses(TopicSharingInterceptor client, int type, byte[] value, String why) throws Exception {
        CapturedLog.clear();
        long before = (Long) LifeChecks.counter(Worker.TOPICS[type], "RefusedRecords");
        long own = (Long) LifeChecks.counter(Worker.TOPICS[type], "OwnRecords");
        equal(later(client, read(Worker.TOPICS[type], 2, 9, ownKey(type, "x"), value)).size(), 0, why);
        equal(LifeChecks.counter(Worker.TOPICS[type], "RefusedRecords"), before + 1, why);
        equal(LifeChecks.counter(Worker.TOPICS[type], "OwnRecords"), own, why);
        equal(CapturedLog.lines("").size(), 1, CapturedLog.lines(""));
        equal(CapturedLog.lines("ERROR Refused the record at " + Worker.TOPICS[type] + "[2]@9: its value " + why).size()
            + CapturedLog.lines("ERROR Refused the record at " + Worker.TOPICS[type] + "[2]@9: it is a " + why).size(), 1, CapturedLog.lines(""));
    }

    /** Each value goes out sealed for its place, a removal too; on the config topic that is the value null. */
    public static void everythingGoesOutSealed() throws Exception {
        Seal seal = new Seal(new KeyRing(SEVEN));
        try (Worker worker = worker()) {
            for (int type = 0; type < 3; type++) {
                for (byte[] value : new byte[][] {VALUE, {}, NULL, null}) {
                    for (int i = 0; i < 2; i++) {
                        ProducerRecord<Object, Object> sent =
                            worker.first.onSend(toSend(Worker.TOPICS[type], Worker.goodKey(Worker.TOPICS[type], "x"), value));
                        equal(sent.key(), ownKey(type, "x"), "key");
                        Seal.Opened opened = seal.open(TYPES[type], wire(sent.key()), (byte[]) sent.value());
                        equal(opened.refusal, null, TYPES[type]);
                        byte[] given = value == null && type == 0 ? NULL : value;
                        equal(opened.value, given, TYPES[type]);
                        that(!new String((byte[]) sent.value(), "ISO-8859-1").contains("SECRET"), "plain");
                        that(Math.abs(opened.writtenMs - System.currentTimeMillis()) < 60_000, opened.writtenMs);
                        accepted(worker.first, type, (byte[]) sent.value(), given);
                    }
                }
                equal(LifeChecks.counter(Worker.TOPICS[type], "RefusedRecords"), 0L, type);
            }
        }
        equal(CapturedLog.lines("ERROR").size(), 0, CapturedLog.lines(""));
        equal(CapturedLog.lines("INFO Values are sealed with the first of keys 7; only sealed ones of this group are accepted").size(), 1,
            CapturedLog.lines(""));
    }

    /** Plain values, tombstones, forged, moved and broken ones are dropped and counted, and nothing else happens. */
    public static void whatIsRefused() throws Exception {
        try (Worker worker = worker()) {
            for (int type = 0; type < 3; type++) {
                byte[] good = sealed(SEVEN, type, ownKey(type, "x"), VALUE, 1);
                byte[] flipped = good.clone();
                flipped[flipped.length - 1] ^= 1;
                refuses(worker.first, type, VALUE, "is not sealed, whoever wrote it");
                refuses(worker.first, type, new byte[0], "is not sealed, whoever wrote it");
                refuses(worker.first, type, null, "tombstone: only a sealed removal removes");
                refuses(worker.first, type, flipped, "was not sealed for this place");
                refuses(worker.first, type, sealed(SEVEN, type, ownKey(type, "y"), VALUE, 1), "was not sealed for this place");
                refuses(worker.first, type, sealed(SEVEN, (type + 1) % 3, ownKey(type, "x"), VALUE, 1), "was not sealed for this place");
                refuses(worker.first, type, Arrays.copyOf(good, 41), "begins like a sealed one, and is none");
                refuses(worker.first, type, sealed(keys(9), type, ownKey(type, "x"), VALUE, 1), "is sealed with a key that this worker does not");
                accepted(worker.first, type, good, VALUE);
                equal(LifeChecks.counter(Worker.TOPICS[type], "Stopped"), false, type);
            }
        }
    }

    /** Each value counts once, and none that is older; on the config topic the position moves all the same. */
    public static void replays() throws Exception {
        long now = 1_790_000_000_000L;
        try (Worker worker = worker()) {
            for (int type = 0; type < 3; type++) {
                Object key = ownKey(type, "x");
                byte[] first = sealed(SEVEN, type, key, VALUE, now);
                byte[] second = sealed(SEVEN, type, key, NULL, now);
                accepted(worker.first, type, first, VALUE);
                accepted(worker.first, type, second, NULL);
                accepted(worker.first, type, sealed(SEVEN, type, key, VALUE, now + 1), VALUE);
                byte[] newest = sealed(SEVEN, type, key, NULL, now + 2);
                accepted(worker.first, type, newest, NULL);
                for (byte[] old : new byte[][] {first, second, newest}) {
                    List<ConsumerRecord<Object, Object>> got = later(worker.first, read(Worker.TOPICS[type], 0, 7, key, old));
                    equal(got.size(), type == 0 ? 1 : 0, "moves");
                    if (type == 0) {
                        equal(got.get(0).key(), "target-state- ", "not what lifts a fence");
                        equal(got.get(0).value(), NULL, "marker");
                        equal(got.get(0).offset(), 7L, "marker");
                    }
                }
                equal(LifeChecks.counter(Worker.TOPICS[type], "RefusedRecords"), 2L, "old");
                equal(LifeChecks.counter(Worker.TOPICS[type], "RepeatedRecords"), 1L, "newest");
                if (type == 2) {
                    // A client that begins anew remembers nothing, and reads old values on its way to the newest.
                    accepted(worker.client(), type, first, VALUE);
                    // Another partition has an order of its own; of the two the newer one counts.
                    ConsumerRecord<Object, Object> other = later(worker.first, read(Worker.OFFSET, 1, 7, key, first)).get(0);
                    equal(other.value(), NULL, "elsewhere");
                }
            }
            // What is written is later than all that was read, whatever the clock says.
            long ahead = System.currentTimeMillis() + 3_600_000;
            accepted(worker.first, 1, sealed(SEVEN, 1, ownKey(1, "x"), VALUE, ahead), VALUE);
            Seal seal = new Seal(new KeyRing(SEVEN));
            for (long expected = ahead + 1; expected < ahead + 4; expected++) {
                ProducerRecord<Object, Object> sent = worker.client().onSend(toSend(Worker.STATUS, "status-task-x-0", VALUE));
                equal(seal.open(TopicType.STATUS, wire(sent.key()), (byte[]) sent.value()).writtenMs, expected, "clock");
            }
        }
    }

    /** Plain records count in mode accept, sealed ones have to be good; everything is written sealed. */
    public static void modeAccept() throws Exception {
        try (Worker worker = worker(MODE, " Accept ")) {
            for (int type = 0; type < 3; type++) {
                acceptedPlain(worker.first, type, VALUE);
                acceptedPlain(worker.first, type, null);
                accepted(worker.first, type, sealed(SEVEN, type, ownKey(type, "x"), VALUE, 1), VALUE);
                refuses(worker.first, type, new byte[] {1}, "begins like a sealed one");
                Object sent = worker.first.onSend(toSend(Worker.TOPICS[type], Worker.goodKey(Worker.TOPICS[type], "x"), VALUE)).value();
                that(Seal.isSealed((byte[]) sent), "sealed");
            }
        }
    }

    private static void acceptedPlain(TopicSharingInterceptor client, int type, byte[] value) {
        List<ConsumerRecord<Object, Object>> got = later(client, read(Worker.TOPICS[type], 0, 3, ownKey(type, "x"), value));
        equal(got.size(), 1, "plain");
        same(got.get(0).value(), value, "plain");
    }

    /** Without keys, or with keys that are off, nothing is sealed and nothing sealed is read. */
    public static void withoutKeys() throws Exception {
        for (String[] properties : new String[][] {{}, {MODE, "off"}, {MODE, "OFF", KEYS, SEVEN}}) {
            try (Worker worker = new Worker(properties)) {
                for (int type = 0; type < 3; type++) {
                    same(worker.first.onSend(toSend(Worker.TOPICS[type], Worker.goodKey(Worker.TOPICS[type], "x"), VALUE)).value(), VALUE, type);
                    acceptedPlain(worker.first, type, VALUE);
                    refuses(worker.first, type, sealed(SEVEN, type, ownKey(type, "x"), VALUE, 1), "is sealed, and this worker has no keys");
                }
            }
        }
    }

    /** A group most of whose configurations look sealed is not written to without keys, unless the file says that it is plain. */
    public static void theKeysLineIsMissing() throws Exception {
        for (int sealed = 0; sealed <= 3; sealed++) {
            for (String word : new String[] {null, "off"}) {
                try (Worker worker = new Worker(MODE, word)) {
                    for (int n = 0; n < 5; n++) {
                        // A removed one counts for nothing, and neither do records of others.
                        byte[] value = n == 4 ? NULL : n < sealed ? sealed(SEVEN, 0, ownKey(0, "" + n), VALUE, 1) : VALUE;
                        later(worker.first, read(Worker.CONFIG, 0, 2 * n, ownKey(0, "" + n), VALUE));
                        later(worker.first, read(Worker.CONFIG, 0, 2 * n + 1, ownKey(0, "" + n), value));
                        later(worker.first, read(Worker.CONFIG, 0, 99, "other." + ownKey(0, "" + n), sealed(SEVEN, 0, "x", VALUE, 1)));
                    }
                    SealedTopics topics = Sharing.ofOnlyWorker().sealed;
                    equal(topics.objectionSoFar() != null, sealed == 3 && word == null, sealed);
                    ProducerRecord<Object, Object> record = toSend(Worker.STATUS, Worker.goodKey(Worker.STATUS, "x"), VALUE);
                    if (sealed < 3 || word != null) {
                        worker.first.onSend(record);
                        goesOn(sealed);
                    } else {
                        String said = stops(() -> worker.first.onSend(record), sealed).getMessage();
                        that(said.startsWith("3 of 4 values of this group on the config topic look sealed, such as shared-configs[0]@5, but the "
                            + "worker file has no line " + KEYS + ": put it back"), said);
                        exits(sealed);
                        equal(lifted(topics, ownKey(0, "3"), VALUE, ownKey(0, "0"), null, ownKey(0, "1"), NULL), 2, "lifted");
                    }
                    // What comes after the first write is refused record by record.
                    worker.first.onConsume(poll(read(Worker.CONFIG, 0, 100, ownKey(0, "late"), sealed(SEVEN, 0, ownKey(0, "late"), VALUE, 1))));
                }
            }
        }
    }

    /** A worker to which nothing of its group opens writes nothing; a stranger's record under an unknown id is refused. */
    public static void unknownKeyAtStart() throws Exception {
        for (int opens = 0; opens < 2; opens++) {
            try (Worker worker = worker()) {
                for (int type = 0; type < 3; type++) {
                    equal(later(worker.first, read(Worker.TOPICS[type], 1, 4, ownKey(type, "x"),
                        sealed(keys(9), type, ownKey(type, "x"), VALUE, 1))).size(), 0, "stranger");
                    equal(LifeChecks.counter(Worker.TOPICS[type], "RefusedRecords"), 1L, "stranger");
                }
                SealedTopics topics = Sharing.ofOnlyWorker().sealed;
                that(topics.objectionSoFar().contains("no value of the group opens"), topics.objectionSoFar());
                byte[] mine = sealed(SEVEN, 0, ownKey(0, "y"), VALUE, 1);
                equal(lifted(topics, ownKey(0, "y"), VALUE, ownKey(0, "y"), null, ownKey(0, "x"), mine, ownKey(0, "y"), mine), 3, "opens");
                ProducerRecord<Object, Object> record = toSend(Worker.STATUS, Worker.goodKey(Worker.STATUS, "x"), VALUE);
                if (opens == 1) {
                    worker.first.onConsume(poll(read(Worker.CONFIG, 1, 5, ownKey(0, "y"), sealed(SEVEN, 0, ownKey(0, "y"), VALUE, 1))));
                    worker.first.onSend(record);
                    goesOn(opens);
                } else {
                    String said = stops(() -> worker.first.onSend(record), opens).getMessage();
                    that(said.startsWith(Worker.CONFIG + "[1]@4 is sealed with key 9, and no value of the group opens, but " + KEYS
                        + " has only 7: put the missing key behind those that are there; if the group never had it, another writer's "), said);
                    exits(opens);
                }
            }
        }
        try (Worker worker = worker()) {
            later(worker.first, read(Worker.CONFIG, 0, 1, ownKey(0, "x"), sealed(SEVEN, 0, ownKey(0, "y"), VALUE, 1)));
            String said = stops(() -> worker.first.onSend(toSend(Worker.CONFIG, "connector-x", VALUE)), "forged").getMessage();
            that(said.contains(KEYS + " has another one under this id: put that of the group there; if the group never had it"), said);
        }
        // What the group removes under an announcement's key, and is none, stops nothing; other refusals neither, not at the start.
        try (Worker worker = worker()) {
            equal(worker.first.onConsume(poll(read(Worker.CONFIG, 0, 1, ownKey(0, "x"), VALUE), read(Worker.CONFIG, 0, 2, ownKey(0, "x"), null),
                read(Worker.CONFIG, 0, 3, ownKey(0, "x"), new byte[60]), read(Worker.CONFIG, 0, 4, ownKey(0, "x"), new byte[] {1, 2}))).count(), 0, "");
            accepted(worker.first, 0, "target-state- key--", sealed(SEVEN, 0, Worker.GROUP + ".target-state- key--", null, 1));
            equal(LifeChecks.counter(Worker.CONFIG, "RefusedRecords"), 4L, "start");
            equal(LifeChecks.counter(Worker.CONFIG, "Stopped"), false, "start");
        }
    }

    /** Which of these keys and values that follow on the config topic is the first that lifts what speaks against a start. */
    private static int lifted(SealedTopics topics, Object... pairs) throws GeneralSecurityException {
        for (int i = 0; i < pairs.length; i += 2) {
            String key = (String) pairs[i];
            if (topics.lifts(new ConsumerRecord<>(Worker.CONFIG, 0, i, key, (byte[]) pairs[i + 1]), key.substring(Worker.GROUP.length() + 1))) {
                return i / 2;
            }
        }
        return -1;
    }

    /** The first key seals, all open. */
    public static void rotation() throws Exception {
        try (Worker worker = new Worker(KEYS, keys(-1, 7))) {
            List<String> announced = new ArrayList<>();
            worker.first.announcer = new KeyAnnouncer(Worker.properties()) {
                @Override
                void write(String topic, byte[] key, byte[] value) {
                    announced.add(topic + " " + new String(key) + " " + Seal.keyId(value) + " " + value.length);
                    accepted(worker.first, 0, new String(key).substring(Worker.GROUP.length() + 1), value);
                }
            };
            accepted(worker.first, 0, sealed(SEVEN, 0, ownKey(0, "x"), VALUE, 1), VALUE);
            byte[] sent = (byte[]) worker.first.onSend(toSend(Worker.CONFIG, "connector-x", VALUE)).value();
            equal(Seal.keyId(sent), "4294967295", "first key");
            accepted(worker.first, 0, sent, VALUE);
            String key = Worker.CONFIG + " " + Worker.GROUP + ".target-state- key-";
            equal(announced, Arrays.asList(key + "4294967295-7 7 42", key + "7-4294967295 4294967295 42"), "announced");
            worker.first.onSend(toSend(Worker.STATUS, "status-connector-x", VALUE));
            equal(announced.size(), 2, "announced once");
        }
        // A group that has one key only, or has written all again with the first one, announces nothing.
        try (Worker worker = new Worker(KEYS, keys(-1, 7))) {
            accepted(worker.first, 0, sealed(SEVEN, 0, ownKey(0, "x"), VALUE, 1), VALUE);
            accepted(worker.first, 0, sealed(keys(-1), 0, ownKey(0, "x"), VALUE, 2), VALUE);
            worker.first.announcer = null;
            worker.first.onSend(toSend(Worker.CONFIG, "connector-x", VALUE));
        }
    }

    private static void accepted(TopicSharingInterceptor client, int type, String original, byte[] value) {
        equal(later(client, read(Worker.TOPICS[type], 0, 3, Worker.GROUP + "." + original, value)).get(0).value(), NULL, original);
    }

    /** Clients of connectors have the worker's keys, for its offset topic; what they cannot read they refuse. */
    public static void clientsOfConnectors() throws Exception {
        try (Worker worker = worker()) {
            TopicSharingInterceptor client = Worker.connectorClient();
            byte[] sent = (byte[]) client.onSend(toSend(Worker.OFFSET, bytes("[\"x\"]"), VALUE)).value();
            accepted(client, 2, sent, VALUE);
            accepted(worker.first, 2, sent, VALUE);
            ProducerRecord<Object, Object> data = toSend("own-offsets", bytes("[\"x\"]"), VALUE);
            same(client.onSend(data), data, "a topic of its own");
            refuses(client, 2, sealed(keys(9), 2, ownKey(2, "x"), VALUE, 1), "is sealed with a key that this worker does not");
            equal(LifeChecks.counter(Worker.OFFSET, "Stopped"), false, "worker");
        }
    }

    /** A value that internal clients do not write or read stops the worker, and no plain value goes out. */
    public static void valuesOfOtherTypes() {
        for (Object value : new Object[] {"text", 7, new Object()}) {
            try (Worker worker = worker()) {
                stops(() -> worker.first.onSend(toSend(Worker.CONFIG, "connector-x", value)), value);
                Worker.stopped(worker.first, value);
            }
            try (Worker worker = worker()) {
                stops(() -> worker.first.onConsume(poll(read(Worker.CONFIG, 0, 0, ownKey(0, "x"), value))), value);
                Worker.stopped(worker.first, value);
            }
        }
    }

    /** One line for each refusal, but not thousands. */
    public static void linesForRefusals() throws Exception {
        try (Worker worker = worker()) {
            for (int i = 0; i < 1_000; i++) {
                worker.first.onConsume(poll(read(Worker.CONFIG, 0, i, ownKey(0, "x"), VALUE)));
            }
            equal(LifeChecks.counter(Worker.CONFIG, "RefusedRecords"), 1_000L, "refused");
            equal(CapturedLog.lines("ERROR Refused").size(), 100, "lines");
            equal(CapturedLog.lines("").stream().filter(line -> line.contains("SECRET")).count(), 0L, "value in the log");
        }
    }

    /** What is wrong in the worker file stops it at start, and is never shown. */
    public static void refusals() {
        String material = SEVEN.substring(2);
        String[][] cases = {
            {KEYS, material, MODE, null, KEYS + ": entry 1 of the keys has no colon"},
            {KEYS, SEVEN + ",8:" + material.substring(3), MODE, null, KEYS + ": entry 2 of the keys has no base64"},
            {KEYS, SEVEN + ", " + SEVEN, MODE, null, "entry 2 of the keys has key id 7 again"},
            {KEYS, "${vault:a:keys}", MODE, "off", "entry 1 of the keys has no key id"},
            {KEYS, null, MODE, "required", KEYS + " is missing; " + MODE + "=required needs keys"},
            {KEYS, " ", MODE, null, KEYS + " is empty, and nothing would be sealed"},
            {KEYS, " ", MODE, "accept", KEYS + " is missing; " + MODE + "=accept needs keys"},
            {KEYS, SEVEN, MODE, "on", MODE + " has to be one of required, accept, off"},
            {KEYS, SEVEN, SHARING, "disabled", KEYS + " is there, but " + SHARING + " is not enabled"},
        };
        for (String[] one : cases) {
            String message = refused(() -> Worker.client(Worker.properties(one[0], one[1], one[2], one[3])), one[4]);
            that(!message.contains(material.substring(3, 13)), message);
            that(message.chars().allMatch(c -> c >= 0x20 && c < 0x7f), message);
        }
    }

    /** Workers with other keys are other workers. */
    public static void settingsWithKeys() {
        Settings settings = Settings.of(Worker.properties(KEYS, SEVEN));
        equal(settings, Settings.of(Worker.properties(KEYS, " " + SEVEN)), "same");
        equal(settings.hashCode(), Settings.of(Worker.properties(KEYS, SEVEN)).hashCode(), "same");
        for (String[] other : new String[][] {{KEYS, keys(8)}, {KEYS, keys(7, 8)}, {KEYS, keys(263)}, {KEYS, null}, {MODE, "accept"}}) {
            that(!settings.equals(Settings.of(Worker.properties(other.length == 2 && other[0].equals(MODE)
                ? new String[] {KEYS, SEVEN, MODE, other[1]} : other))), other[1]);
        }
        equal(settings.sealingKeys.toString(), "KeyRing of 7", "shown");
    }
}
