package connectshare;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/** What a store has of a key that it reads through the interceptor, in polls of any size; cases from standard input, one a line. */
final class PlaceAnswers {
    private static final Random RANDOM = new Random(1173);

    private PlaceAnswers() {
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            CapturedLog.clear();
            System.out.println(json.writeValueAsString(value(json.readTree(line))));
        }
    }

    private static byte[] value(JsonNode one) throws IOException {
        byte[] value = null;
        try (Worker worker = new Worker("group.id", "g", "connect.management.topic.sharing.encryption.keys", one.get("keys").textValue())) {
            TopicSharingInterceptor client = worker.first;
            client.places = new KeyPlaces(topic -> one.get("partitions").intValue());
            List<ConsumerRecord<Object, Object>> polled = new ArrayList<>();
            for (int at = 1; at <= one.get("records").size(); at++) {
                polled.add(read(one.get("topic").textValue(), one.get("records").get(at - 1)));
                if (RANDOM.nextBoolean() || at == one.get("records").size()) {
                    ConsumerRecords<Object, Object> given = Worker.poll(polled.toArray(new ConsumerRecord[0]));
                    for (ConsumerRecord<Object, Object> got : client.onConsume(given)) {
                        value = (byte[]) got.value();
                    }
                    polled.clear();
                }
            }
        }
        return value;
    }

    private static ConsumerRecord<Object, Object> read(String topic, JsonNode record) throws IOException {
        byte[] key = Worker.bytes(record.get(2).textValue());
        byte[] value = record.get(3).binaryValue();
        return Worker.read(topic, record.get(0).intValue(), 0, record.get(1).longValue(), TimestampType.CREATE_TIME, key.length, 0,
            topic.equals(Worker.OFFSET) ? key : record.get(2).textValue(), value, new RecordHeaders(), Optional.empty());
    }
}
