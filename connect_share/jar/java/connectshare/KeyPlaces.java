package connectshare;

import connectshare.GroupKeys.TopicType;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.ToIntFunction;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Utils;

/**
 * Where the own keys of one client have records: of a key in several partitions, as after partitions were added, one counts.
 *
 * <p>The same rule as {@code connect_share/model/places.py}: of each partition the newest record, of these the one with the newest
 * time, of equal times the one where murmur2 places the key now. A newer record of its partition may be dated earlier, and then
 * another partition counts again. So values are remembered: the worker's store holds the same arrays, nothing is copied.
 */
final class KeyPlaces {
    // Names come and go: what was removed longer ago is forgotten.
    private static final int MOST_REMOVED = 100_000;

    private final ToIntFunction<String> partitionsOf;
    private final Map<Object, Place> living = new HashMap<>();
    private final Map<Object, Place> removed = new LinkedHashMap<>();
    // Asked once, and only where times are equal: Connect's own reader has the partitions of its start.
    private int partitions;

    /** The newest record of a key in one partition; the next one is that in another. */
    private static final class Place {
        private int partition;
        private long timeMs;
        private Object value;
        private Place next;
    }

    KeyPlaces(ToIntFunction<String> partitionsOf) {
        this.partitionsOf = partitionsOf;
    }

    /**
     * Notes the next own record of its partition, as the group sees it; returns it with the value that counts now.
     *
     * @param read the same as it is on the topic
     * @param timeMs the time that decides: of a sealed value that of the sealing
     */
    ConsumerRecord<Object, Object> counting(
            TopicType type, ConsumerRecord<Object, Object> read, ConsumerRecord<Object, Object> record, long timeMs)
            throws ReflectiveOperationException {
        if (type == TopicType.CONFIG) {
            return record; // one partition
        }
        Object key = record.key() instanceof byte[] ? ByteBuffer.wrap((byte[]) record.key()) : record.key();
        Place first = living.containsKey(key) ? living.get(key) : removed.remove(key);
        Place place = first;
        while (place != null && place.partition != record.partition()) {
            place = place.next;
        }
        if (place == null) {
            place = new Place();
            place.partition = record.partition();
            place.next = first;
            first = place;
        }
        place.timeMs = timeMs;
        place.value = record.value();
        Place counts = first;
        for (Place other = first.next; other != null; other = other.next) {
            counts = precedes(other, counts, read) ? other : counts;
        }
        if (counts.value != null) {
            living.put(key, first);
        } else {
            living.remove(key);
            removed.put(key, first);
            if (removed.size() > MOST_REMOVED) {
                removed.remove(removed.keySet().iterator().next());
            }
        }
        return counts == place ? record : RecordCopies.with(record, record.key(), counts.value);
    }

    private boolean precedes(Place one, Place other, ConsumerRecord<Object, Object> read) {
        if (one.timeMs != other.timeMs) {
            return one.timeMs > other.timeMs;
        }
        partitions = partitions == 0 ? partitionsOf.applyAsInt(read.topic()) : partitions;
        int placed = Utils.toPositive(Utils.murmur2(SealedTopics.bytes(read.key()))) % partitions;
        return one.partition == placed || other.partition != placed && one.partition < other.partition;
    }
}
