package connectshare;

import connectshare.GroupKeys.TopicType;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * KIP-1173 for Connect workers that do not know it: many clusters share one set of internal topics.
 *
 * <p>A worker's file has {@code connect.management.topic.sharing.support=enabled} and
 * {@code interceptor.classes=connectshare.TopicSharingInterceptor}; that reaches the clients of the three internal topics and
 * no others. Keys get {@code <group.id>.} before them on the way out; on the way in, records of other groups are dropped and
 * the prefix is cut off. On the config topic a tombstone goes out as JSON null: the newest record of a group must stay there
 * for ever, else a worker that starts later counts another position than its peers. With keys in the worker's file values are
 * sealed on the way out; on the way in they are opened, and what the group has not sealed is dropped.
 *
 * <p>Kafka's clients swallow exceptions of interceptors and let the record through unchanged, so everything that can be wrong
 * is found in {@link #configure}; later, whatever is not expected ends in an {@link Error} and a closed latch.
 */
public final class TopicSharingInterceptor
        implements ProducerInterceptor<Object, Object>, ConsumerInterceptor<Object, Object> {
    /** Name of this class as worker files have it. */
    static final String NAME = "connectshare.TopicSharingInterceptor";

    private Sharing sharing;
    // Stays when the client is closed: not even then does a plain key pass.
    private boolean ofWorker;
    private boolean acquired;
    private Latch latch = Latch.ofClient("this client");
    // Null where sharing is off: no topic is known then.
    private SealedTopics.Reader reader;
    private MovedGroup moved;
    KeyPlaces places;
    KeyAnnouncer announcer;

    /** Version of this jar. */
    static String version() {
        Package own = TopicSharingInterceptor.class.getPackage();
        String version = own == null ? null : own.getImplementationVersion();
        return version == null ? "unknown" : version;
    }

    /**
     * Reads the client's properties.
     *
     * @throws org.apache.kafka.common.config.ConfigException something is missing or wrong; the worker stops
     */
    @Override
    public void configure(Map<String, ?> properties) {
        // Loads the look-ups now: a client that they do not fit has to fail here.
        RecordCopies.ready();
        if (Settings.areOfWorker(properties)) {
            sharing = Sharing.acquire(Settings.of(properties));
            ofWorker = true;
            acquired = true;
            latch = sharing.latch;
        } else {
            sharing = Sharing.ofOnlyWorker();
            latch = Latch.ofClient("this client of a connector");
        }
        moved = sharing.keys == null ? null : new MovedGroup(properties, sharing.keys, sharing.sealed);
        reader = sharing.sealed == null ? null : sharing.sealed.new Reader(moved);
        places = sharing.keys == null ? null : new KeyPlaces(moved::partitions);
        announcer = new KeyAnnouncer(properties);
    }

    @Override
    public ProducerRecord<Object, Object> onSend(ProducerRecord<Object, Object> record) {
        try {
            TopicType type = type(record.topic());
            return type == null ? record : outgoing(type, record);
        } catch (TopicSharingError refused) {
            throw refused;
        } catch (Throwable unexpected) {
            throw latch.close("a record could not be given the group's prefix", unexpected);
        }
    }

    private ProducerRecord<Object, Object> outgoing(TopicType type, ProducerRecord<Object, Object> record) {
        if (latch.closed() || sharing.latch.closed()) {
            throw (latch.closed() ? latch : sharing.latch).refusal();
        }
        Object key = prefixed(type, record.key());
        if (key == null) {
            throw latch.close("a record for topic " + Texts.shown(record.topic()) + " has a key that Connect is not known to write: "
                + described(type, record.key()) + "; this jar may be older than the worker", null);
        }
        Object value = sealed(type, key, record.value());
        sharing.counters.get(record.topic()).rewritten.increment();
        return new ProducerRecord<>(
            record.topic(), record.partition(), sharing.sealed.time(type, key, record.timestamp()), key, value, record.headers());
    }

    private Object sealed(TopicType type, Object key, Object value) {
        String objection = sharing.sealed.objection();
        if (objection != null) {
            throw latch.close(objection, null);
        }
        try {
            if (ofWorker) {
                sharing.sealed.announceKeys(sharing.keys, sharing.settings.configTopic(), announcer);
            }
            return sharing.sealed.outgoing(type, key, value);
        } catch (GeneralSecurityException | IllegalStateException trouble) {
            throw latch.close("a value could not be sealed", trouble);
        } catch (Exception trouble) {
            throw latch.close("which keys the group uses could not be written", trouble);
        }
    }

    private Object prefixed(TopicType type, Object key) {
        if (key instanceof String) {
            return GroupKeys.isOriginal(type, (String) key, 0) ? sharing.keys.prefixed((String) key) : null;
        }
        if (key instanceof byte[]) {
            return GroupKeys.isOriginal(type, (byte[]) key, 0) ? sharing.keys.prefixed((byte[]) key) : null;
        }
        return null;
    }

    // Keys of the offset topic name what a connector reads; they are not shown.
    private static String described(TopicType type, Object key) {
        if (key == null) {
            return "none";
        }
        return key instanceof String && type != TopicType.OFFSET ? "'" + Texts.shown((String) key) + "'" : key.getClass().getName();
    }

    @Override
    public ConsumerRecords<Object, Object> onConsume(ConsumerRecords<Object, Object> records) {
        try {
            return incoming(records);
        } catch (TopicSharingError closed) {
            throw closed;
        } catch (Throwable unexpected) {
            throw latch.close("records could not be told apart by group", unexpected);
        }
    }

    private ConsumerRecords<Object, Object> incoming(ConsumerRecords<Object, Object> polled)
            throws GeneralSecurityException, ReflectiveOperationException {
        // Partitions stay in the order in which they were fetched.
        Map<TopicPartition, List<ConsumerRecord<Object, Object>>> kept = new LinkedHashMap<>();
        boolean changed = false;
        for (TopicPartition partition : polled.partitions()) {
            List<ConsumerRecord<Object, Object>> records = polled.records(partition);
            TopicType type = type(partition.topic());
            if (type != null) {
                changed = true;
                records = own(type, records, sharing.counters.get(partition.topic()));
            }
            if (!records.isEmpty()) {
                kept.put(partition, records);
            }
        }
        return changed ? RecordCopies.withRecords(polled, kept) : polled;
    }

    private List<ConsumerRecord<Object, Object>> own(
            TopicType type, List<ConsumerRecord<Object, Object>> records, TopicCounters counters)
            throws GeneralSecurityException, ReflectiveOperationException {
        List<ConsumerRecord<Object, Object>> kept = new ArrayList<>();
        if (latch.closed() || sharing.latch.closed()) {
            (latch.closed() ? latch : sharing.latch).remind();
            return kept;
        }
        int foreign = 0;
        for (ConsumerRecord<Object, Object> record : records) {
            Object original = original(type, record.key());
            if (original == null) {
                foreign++;
                continue;
            }
            ConsumerRecord<Object, Object> accepted = reader.accepted(type, record, original, places, counters);
            if (accepted != null) {
                kept.add(accepted);
                if (type == TopicType.CONFIG) {
                    moved.see(accepted);
                    sharing.watch.see(accepted.key(), accepted.value());
                }
            }
        }
        boolean asks = type == TopicType.CONFIG && reader.isStarting() && !records.isEmpty();
        String objection = asks ? moved.objection(records.get(records.size() - 1)) : null;
        if (objection != null) {
            throw latch.close(objection, null);
        }
        counters.own.add(kept.size());
        counters.foreign.add(foreign);
        return kept;
    }

    private Object original(TopicType type, Object key) {
        if (key == null) {
            return null;
        }
        if (key instanceof String) {
            return sharing.keys.own(type, (String) key);
        }
        if (key instanceof byte[]) {
            return sharing.keys.own(type, (byte[]) key);
        }
        throw new IllegalStateException("keys of a shared topic are read as " + key.getClass().getName()
            + "; the worker's internal clients read texts and bytes");
    }

    /** The type of a topic for this client: connectors' clients have to do with the offset topic only. */
    private TopicType type(String topic) {
        TopicType type = sharing.settings.topics.get(topic);
        return ofWorker || type == TopicType.OFFSET ? type : null;
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        // Nothing to do: the record was rewritten before it was placed.
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        // Internal consumers never commit; those of sink connectors are not our concern.
    }

    @Override
    public synchronized void close() {
        if (acquired) {
            acquired = false;
            sharing.release();
        }
    }
}
