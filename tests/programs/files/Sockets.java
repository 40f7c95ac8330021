// What Java's libraries do with sockets.

import java.io.InputStream;
import java.io.OutputStream;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.security.MessageDigest;
import java.util.Iterator;

public class Sockets {
    static final InetAddress HERE = InetAddress.getLoopbackAddress();
    static final byte[] DATA = new byte[2_000_000];

    public static void main(String[] words) throws Exception {
        for (int at = 0; at < DATA.length; at++) {
            DATA[at] = (byte) (at * 31 % 251);
        }
        if (words[0].equals("load")) {
            load(Integer.parseInt(words[1]));
            return;
        }
        blocking();
        selector();
        errors();
        System.out.println("done");
    }

    static String digest(byte[] data) throws Exception {
        byte[] sum = MessageDigest.getInstance("SHA-256").digest(data);
        return data.length + " " + String.format("%02x%02x%02x", sum[0], sum[1], sum[2]);
    }

    static void blocking() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 10, HERE); Socket client = new Socket(HERE, server.getLocalPort())) {
            Socket accepted = server.accept();
            Thread writer = new Thread(() -> {
                try {
                    accepted.getOutputStream().write(DATA);
                    accepted.shutdownOutput();
                } catch (Exception error) {
                    System.out.println(error);
                }
            });
            writer.start();
            System.out.println("blocking " + digest(client.getInputStream().readAllBytes()));
            writer.join();
            accepted.close();
        }
    }

    // An echo server of one thread, and five clients.
    static Thread echo(ServerSocketChannel server, int connections) {
        Thread thread = new Thread(() -> {
            try (Selector selector = Selector.open()) {
                server.configureBlocking(false);
                server.register(selector, SelectionKey.OP_ACCEPT);
                ByteBuffer buffer = ByteBuffer.allocateDirect(100_000);
                int open = connections;
                while (open > 0) {
                    selector.select();
                    Iterator<SelectionKey> keys = selector.selectedKeys().iterator();
                    while (keys.hasNext()) {
                        SelectionKey key = keys.next();
                        keys.remove();
                        if (key.isAcceptable()) {
                            SocketChannel channel = server.accept();
                            channel.configureBlocking(false);
                            channel.socket().setTcpNoDelay(true);
                            channel.register(selector, SelectionKey.OP_READ);
                            continue;
                        }
                        SocketChannel channel = (SocketChannel) key.channel();
                        buffer.clear();
                        if (channel.read(buffer) < 0) {
                            channel.close();
                            open--;
                            continue;
                        }
                        buffer.flip();
                        while (buffer.hasRemaining()) {
                            channel.write(buffer);
                        }
                    }
                }
            } catch (Exception error) {
                System.out.println(error);
            }
        });
        thread.start();
        return thread;
    }

    static void selector() throws Exception {
        try (ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(new InetSocketAddress(HERE, 0));
            Thread thread = echo(server, 5);
            for (int number = 0; number < 5; number++) {
                try (SocketChannel client = SocketChannel.open(server.getLocalAddress())) {
                    ByteBuffer back = ByteBuffer.allocate(50_000);
                    client.write(ByteBuffer.wrap(DATA, number * 1000, 50_000));
                    while (back.hasRemaining() && client.read(back) >= 0) {
                    }
                    System.out.println("selector " + digest(back.array()));
                }
            }
            thread.join();
        }
    }

    static void errors() throws Exception {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(HERE, 1), 1000);
        } catch (ConnectException error) {
            System.out.println(error.getMessage());
        }
        try (ServerSocket server = new ServerSocket(0, 10, HERE); Socket client = new Socket(HERE, server.getLocalPort())) {
            Socket accepted = server.accept();
            client.setSoTimeout(50);
            try {
                client.getInputStream().read();
            } catch (SocketTimeoutException error) {
                System.out.println(error.getMessage());
            }
            accepted.setSoLinger(true, 0);
            accepted.close();
            client.setSoTimeout(5000);
            try {
                client.getInputStream().read();
            } catch (SocketException error) {
                System.out.println(error.getMessage());
            }
            Thread closer = new Thread(() -> {
                try {
                    Thread.sleep(50);
                    server.close();
                } catch (Exception error) {
                    System.out.println(error);
                }
            });
            closer.start();
            // Another thread closes what this one waits at: the JVM sends itself a signal.
            try {
                server.accept();
            } catch (SocketException error) {
                System.out.println(error.getMessage());
            }
            closer.join();
        }
    }

    static void load(int seconds) throws Exception {
        try (ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(new InetSocketAddress(HERE, 0));
            Thread thread = echo(server, 1);
            try (Socket client = new Socket(HERE, server.socket().getLocalPort())) {
                client.setTcpNoDelay(true);
                InputStream in = client.getInputStream();
                OutputStream out = client.getOutputStream();
                byte[] message = new byte[32];
                long start = System.nanoTime();
                long count = 0;
                while (System.nanoTime() - start < seconds * 1_000_000_000L) {
                    out.write(message);
                    if (in.readNBytes(message, 0, message.length) < message.length) {
                        throw new IllegalStateException("short");
                    }
                    count++;
                }
                System.out.println("rate " + count / ((System.nanoTime() - start) / 1e9));
            }
            thread.join();
        }
    }
}
