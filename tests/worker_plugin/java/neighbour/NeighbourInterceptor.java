package neighbour;

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
 * Somebody else's interceptor in front of ours, and not a good one.
 *
 * <p>A poll with a key that has "throws" in it makes it throw; one with "integers" makes it turn all keys into integers.
 */
public final class NeighbourInterceptor implements ProducerInterceptor<Object, Object>, ConsumerInterceptor<Object, Object> {
    @Override
    public ProducerRecord<Object, Object> onSend(ProducerRecord<Object, Object> record) {
        return record;
    }

    @Override
    public ConsumerRecords<Object, Object> onConsume(ConsumerRecords<Object, Object> polled) {
        boolean integers = false;
        for (ConsumerRecord<Object, Object> record : polled) {
            if (String.valueOf(record.key()).contains("throws")) {
                throw new IllegalStateException("the neighbour throws");
            }
            integers |= String.valueOf(record.key()).contains("integers");
        }
        if (!integers) {
            return polled;
        }
        Map<TopicPartition, List<ConsumerRecord<Object, Object>>> changed = new LinkedHashMap<>();
        for (ConsumerRecord<Object, Object> record : polled) {
            changed.computeIfAbsent(new TopicPartition(record.topic(), record.partition()), ignored -> new ArrayList<>())
                .add(new ConsumerRecord<>(record.topic(), record.partition(), record.offset(), 7, record.value()));
        }
        return new ConsumerRecords<>(changed);
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        // Not looked at.
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        // Not looked at.
    }

    @Override
    public void close() {
        // Nothing to close.
    }

    @Override
    public void configure(Map<String, ?> configs) {
        // Nothing to configure.
    }
}
