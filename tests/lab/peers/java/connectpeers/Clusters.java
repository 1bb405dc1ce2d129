package connectpeers;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.util.clusters.EmbeddedKafkaCluster;

/**
 * The clusters that the tests run, by their brokers: the workers' properties, the topics, the load.
 *
 * <p>System properties that begin with {@code peers.} say what is done: {@code sharing}, {@code keys} (of sealing),
 * {@code exactly.once}, {@code foreign} (records before the first worker, and a load beside), {@code evidence} (a file).
 */
public final class Clusters {
    static final String INTERCEPTOR = "connectshare.TopicSharingInterceptor";
    private static final Map<String, Cluster> RUNNING = new ConcurrentHashMap<>();
    private static final boolean SHARING = Boolean.getBoolean("peers.sharing");
    private static final Pattern OF_CONNECT = Pattern.compile(
        "(connector|task|commit|target-state|restart-connector|tasks-fencing|logger-cluster|status-\\w+)-.*|session-key|\\[.*",
        Pattern.DOTALL);

    private Clusters() {
    }

    /** One Kafka cluster with the groups of workers on it; topics are the key, the properties of their worker the value. */
    static final class Cluster {
        final Map<String, Map<String, String>> topics = new ConcurrentHashMap<>();
        private ForeignRecords foreign;
        private int workers;

        private synchronized void add(Map<String, String> worker) {
            workers++;
            boolean first = false;
            for (String kind : KeyCount.KINDS) {
                first |= topics.put(worker.get(kind + ".storage.topic"), worker) == null;
            }
            int records = Integer.getInteger("peers.foreign", 0);
            if (first && records > 0) {
                if (foreign == null) {
                    foreign = new ForeignRecords(worker);
                }
                foreign.add(worker, records);
            }
        }
    }

    /** Returns the properties that a worker starts with. */
    public static Map<String, String> workerStarts(Map<String, String> given) {
        Map<String, String> worker = new HashMap<>(given);
        if (SHARING) {
            worker.put("connect.management.topic.sharing.support", "enabled");
            add(worker, "interceptor.classes");
            String keys = System.getProperty("peers.keys", "");
            if (!keys.isEmpty()) {
                worker.put("connect.management.topic.sharing.encryption.keys", keys);
            }
            if (Boolean.getBoolean("peers.exactly.once")) {
                worker.put("exactly.once.source.support", "enabled");
            }
            if (worker.containsKey("exactly.once.source.support")) {
                add(worker, "producer.interceptor.classes");
                add(worker, "consumer.interceptor.classes");
            }
        }
        RUNNING.computeIfAbsent(id(worker.get("bootstrap.servers")), servers -> new Cluster()).add(worker);
        return worker;
    }

    private static void add(Map<String, String> worker, String name) {
        worker.merge(name, INTERCEPTOR, (there, ours) -> there + "," + ours);
    }

    /** Writes a test's own record for an internal topic as the group's worker would; false: it is for another topic. */
    public static boolean produced(Object cluster, String topic, String key, String value) {
        Map<String, String> worker = worker(servers(cluster), topic);
        if (!SHARING || worker == null || key == null) {
            return false;
        }
        boolean ofConnect = OF_CONNECT.matcher(key).matches();
        Map<String, Object> properties = clientProperties(worker);
        if (ofConnect) {
            properties.put("interceptor.classes", GroupView.class.getName());
        }
        byte[] written = (ofConnect ? key : worker.get("group.id") + "." + key).getBytes();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>(topic, written, value == null ? null : value.getBytes())).get();
        } catch (ExecutionException | InterruptedException failed) {
            throw new KafkaException("could not write to " + topic, failed);
        }
        return true;
    }

    /** Returns the properties of a test's own consumer, which sees of internal topics what the group's worker sees. */
    public static Map<String, Object> consumer(Object cluster, Map<String, Object> given) {
        if (!SHARING || !RUNNING.containsKey(id(servers(cluster)))) {
            return given;
        }
        Map<String, Object> properties = new HashMap<>(given);
        properties.put("interceptor.classes", GroupView.class.getName());
        return properties;
    }

    /** Ends the load, and counts the keys of all internal topics, while the brokers still run. */
    public static void stops(Object cluster) {
        Cluster running = RUNNING.remove(id(servers(cluster)));
        if (running != null) {
            if (running.foreign != null) {
                running.foreign.close();
            }
            KeyCount.write(new TreeMap<>(running.topics), running.workers);
        }
    }

    /** Returns the properties of the worker whose internal topic it is, or null. */
    static Map<String, String> worker(String servers, String topic) {
        Cluster cluster = RUNNING.get(id(servers));
        return cluster == null ? null : cluster.topics.get(topic);
    }

    /** Returns how a client reaches the brokers of a worker. */
    static Map<String, Object> clientProperties(Map<String, String> worker) {
        Map<String, Object> properties = new HashMap<>();
        worker.forEach((name, value) -> {
            if (name.equals("bootstrap.servers") || name.startsWith("security.") || name.startsWith("sasl.") || name.startsWith("ssl.")) {
                properties.put(name, value);
            }
        });
        return properties;
    }

    private static String servers(Object cluster) {
        return ((EmbeddedKafkaCluster) cluster).bootstrapServers();
    }

    private static String id(String servers) {
        return String.join(",", new TreeSet<>(List.of(servers.split(","))));
    }
}
