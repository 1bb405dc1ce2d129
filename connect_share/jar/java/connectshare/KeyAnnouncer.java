package connectshare;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes records of the jar's own, as the client of the worker would whose properties it takes: an interceptor can add none. */
class KeyAnnouncer {
    private static final long LIMIT_S = 30;

    private final Map<String, Object> properties = new HashMap<>();

    KeyAnnouncer(Map<String, ?> client) {
        properties.putAll(client);
        properties.remove(Settings.INTERCEPTORS);
        properties.remove("transactional.id");
        properties.put("client.id", client.get("client.id") + "-announcing");
        properties.put("key.serializer", ByteArraySerializer.class);
        properties.put("value.serializer", ByteArraySerializer.class);
    }

    /** Writes one record, and waits for the acknowledgement. */
    void write(String topic, byte[] key, byte[] value) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            producer.send(new ProducerRecord<>(topic, key, value)).get(LIMIT_S, TimeUnit.SECONDS);
        }
    }
}
