package connectpeers;

import connectshare.TopicSharingInterceptor;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** Lets a test's own client write to and read from an internal topic as the group's worker does, by the jar's interceptor. */
public final class GroupView implements ProducerInterceptor<Object, Object>, ConsumerInterceptor<Object, Object> {
    private final Map<Map<String, String>, TopicSharingInterceptor> workers = new HashMap<>();
    private String servers = "";

    /** For Kafka, which makes one instance for each client. */
    public GroupView() {
    }

    @Override
    public void configure(Map<String, ?> properties) {
        Object given = properties.get("bootstrap.servers");
        servers = given instanceof List<?> list ? String.join(",", list.stream().map(String::valueOf).toList()) : String.valueOf(given);
    }

    private TopicSharingInterceptor of(String topic) {
        Map<String, String> worker = Clusters.worker(servers, topic);
        return worker == null ? null : workers.computeIfAbsent(worker, properties -> {
            TopicSharingInterceptor interceptor = new TopicSharingInterceptor();
            interceptor.configure(properties);
            return interceptor;
        });
    }

    @Override
    public ProducerRecord<Object, Object> onSend(ProducerRecord<Object, Object> record) {
        TopicSharingInterceptor interceptor = of(record.topic());
        return interceptor == null ? record : interceptor.onSend(record);
    }

    @Override
    public ConsumerRecords<Object, Object> onConsume(ConsumerRecords<Object, Object> records) {
        Set<TopicSharingInterceptor> found = new HashSet<>();
        for (TopicPartition partition : records.partitions()) {
            found.add(of(partition.topic()));
        }
        found.remove(null);
        ConsumerRecords<Object, Object> seen = records;
        for (TopicSharingInterceptor interceptor : found) {
            seen = interceptor.onConsume(seen);
        }
        return seen;
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        // Nothing to do.
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        // Nothing to do.
    }

    @Override
    public void close() {
        workers.values().forEach(TopicSharingInterceptor::close);
        workers.clear();
    }
}
