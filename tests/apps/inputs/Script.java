// Collections, strings, threads, direct buffers, compression and a child process; prints digests.
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Script {
	static long checksum(byte[] data) {
		CRC32 crc = new CRC32();
		crc.update(data);
		return crc.getValue();
	}

	static long work(int seed) throws DataFormatException {
		Random random = new Random(seed);
		Map<String, List<Integer>> map = new TreeMap<>();
		for (int i = 0; i < 20000; i++)
			map.computeIfAbsent("key" + random.nextInt(3000), k -> new ArrayList<>()).add(i);
		long sum = 0;
		for (int i = 0; i < 200; i++) {
			ByteBuffer direct = ByteBuffer.allocateDirect(1 + random.nextInt(100000));
			direct.put(direct.capacity() / 2, (byte) i);
			sum += direct.capacity() + direct.get(direct.capacity() / 2);
		}
		byte[] text = map.toString().getBytes();
		Deflater deflater = new Deflater();
		deflater.setInput(text);
		deflater.finish();
		byte[] packed = new byte[text.length + 100];
		int length = deflater.deflate(packed);
		deflater.end();
		Inflater inflater = new Inflater();
		inflater.setInput(packed, 0, length);
		byte[] again = new byte[text.length];
		inflater.inflate(again);
		inflater.end();
		return sum + checksum(again);
	}

	public static void main(String[] arguments) throws Exception {
		Process served = new ProcessBuilder(System.getenv("APPS") + "/served",
			Long.toString(ProcessHandle.current().pid())).inheritIO().start();
		if (served.waitFor() != 0)
			System.exit(1);
		ExecutorService pool = Executors.newFixedThreadPool(8);
		List<Future<Long>> answers = new ArrayList<>();
		for (int i = 0; i < 24; i++) {
			int seed = i;
			answers.add(pool.submit(() -> work(seed)));
		}
		for (Future<Long> answer : answers)
			System.out.println(answer.get());
		pool.shutdown();
		System.out.println(IntStream.range(0, 300000).parallel().mapToObj(Integer::toString)
			.collect(Collectors.groupingByConcurrent(String::length, Collectors.counting())));
	}
}
