// Paths of buckets for Nextflow's head, where its own plug-in for S3 is not there: what it asks for goes to the store
// by Amazon's library for Java's files, and names are those of local paths.

import java.nio.channels.SeekableByteChannel
import java.nio.file.*
import java.nio.file.attribute.*
import java.nio.file.spi.FileSystemProvider

import com.esotericsoftware.kryo.Kryo
import com.esotericsoftware.kryo.Serializer
import com.esotericsoftware.kryo.io.Input
import com.esotericsoftware.kryo.io.Output
import groovy.transform.CompileStatic
import groovy.transform.EqualsAndHashCode
import nextflow.file.FileHelper
import nextflow.file.FileSystemPathFactory
import nextflow.util.SerializerRegistrant
import software.amazon.nio.spi.s3.S3FileSystemProvider
import software.amazon.nio.spi.s3.config.S3NioSpiConfiguration

@CompileStatic
@EqualsAndHashCode(includes = ['bucket', 'names'])
class BucketPath implements Path {
    final Bucket bucket
    // Of the local file system, where nothing is looked for.
    final Path names

    BucketPath(Bucket bucket, Path names) {
        this.bucket = bucket
        this.names = names
    }

    private Path with(Path other) { other == null ? null : new BucketPath(bucket, other) }

    private static Path namesOf(Path path) { path instanceof BucketPath ? path.names : path }

    FileSystem getFileSystem() { bucket }
    boolean isAbsolute() { names.absolute }
    Path getRoot() { with(names.root) }
    Path getFileName() { with(names.fileName) }
    Path getParent() { with(names.parent) }
    int getNameCount() { names.nameCount }
    Path getName(int index) { with(names.getName(index)) }
    Path subpath(int from, int to) { with(names.subpath(from, to)) }
    boolean startsWith(Path other) { other.fileSystem == bucket && names.startsWith(namesOf(other)) }
    boolean endsWith(Path other) { other.fileSystem == bucket && names.endsWith(namesOf(other)) }
    Path normalize() { with(names.normalize()) }
    Path resolve(Path other) { with(names.resolve(namesOf(other))) }
    Path relativize(Path other) { with(names.relativize(namesOf(other))) }
    URI toUri() { new URI('s3', bucket.name, Path.of('/').resolve(names).toString(), null) }
    Path toAbsolutePath() { with(Path.of('/').resolve(names)) }
    Path toRealPath(LinkOption... options) { toAbsolutePath() }
    int compareTo(Path other) { names <=> namesOf(other) }
    String toString() { names }

    WatchKey register(WatchService watcher, WatchEvent.Kind<?>[] events, WatchEvent.Modifier... modifiers) {
        throw new UnsupportedOperationException()
    }
}

@CompileStatic
class Bucket extends FileSystem {
    final Store store
    final String name

    Bucket(Store store, String name) {
        this.store = store
        this.name = name
    }

    FileSystemProvider provider() { store }
    void close() { }
    boolean isOpen() { true }
    boolean isReadOnly() { false }
    String getSeparator() { '/' }
    Iterable<Path> getRootDirectories() { [getPath('/')] }
    Iterable<FileStore> getFileStores() { [] }
    Set<String> supportedFileAttributeViews() { ['basic'] as Set }
    Path getPath(String first, String... more) { new BucketPath(this, Path.of(first, more)) }
    PathMatcher getPathMatcher(String pattern) { FileSystems.default.getPathMatcher(pattern) }
    UserPrincipalLookupService getUserPrincipalLookupService() { throw new UnsupportedOperationException() }
    WatchService newWatchService() { throw new UnsupportedOperationException() }
}

// The library knows a folder by the slash at the end of its path.
@CompileStatic
class Store extends FileSystemProvider {
    private final S3FileSystemProvider library = new S3FileSystemProvider()
    private final Map<String, Bucket> buckets = [:]

    Store() {
        final endpoint = new URI(System.getenv('AWS_ENDPOINT_URL'))
        final settings = new S3NioSpiConfiguration()
        settings.withEndpoint(endpoint.authority).withEndpointProtocol(endpoint.scheme)
        settings.withForcePathStyle(true).withRegion(System.getenv('AWS_REGION'))
        library.setConfiguration(settings)
    }

    private Path file(Path path) { library.getPath(path.toUri()) }

    private Path folder(Path path) { library.getPath(URI.create("${path.toUri()}/")) }

    String getScheme() { 's3' }
    FileSystem newFileSystem(URI uri, Map<String, ?> settings) { getFileSystem(uri) }

    synchronized FileSystem getFileSystem(URI uri) {
        buckets.computeIfAbsent(uri.authority) { String name -> new Bucket(this, name) }
    }

    Path getPath(URI uri) { getFileSystem(uri).getPath(uri.path ?: '/') }

    SeekableByteChannel newByteChannel(Path path, Set<? extends OpenOption> options, FileAttribute<?>... attributes) {
        library.newByteChannel(file(path), options, attributes)
    }

    DirectoryStream<Path> newDirectoryStream(Path path, DirectoryStream.Filter<? super Path> filter) {
        final entries = library.newDirectoryStream(folder(path), { true } as DirectoryStream.Filter)
        final names = entries.collect { Path it -> Path.of("/$it").normalize() }
        // The mark of an empty folder is no entry of it.
        names.remove(((BucketPath) path.toAbsolutePath()).names)
        final paths = names.collect { path.fileSystem.getPath(it.toString()) }
        final found = paths.findAll { filter == null || ((DirectoryStream.Filter<Path>) filter).accept(it) }
        new DirectoryStream<Path>() {
            Iterator<Path> iterator() { found.iterator() }
            void close() { }
        }
    }

    void createDirectory(Path path, FileAttribute<?>... attributes) {
        library.createDirectory(folder(path), attributes)
    }

    void delete(Path path) { library.delete(file(path)) }

    void copy(Path from, Path to, CopyOption... options) {
        final copied = from.fileSystem.provider().newInputStream(from)
        try {
            Files.copy(copied, to, StandardCopyOption.REPLACE_EXISTING)
        } finally {
            copied.close()
        }
    }

    void move(Path from, Path to, CopyOption... options) {
        copy(from, to, options)
        delete(from)
    }

    boolean isSameFile(Path one, Path other) { one == other }
    boolean isHidden(Path path) { path.fileName?.toString()?.startsWith('.') }
    FileStore getFileStore(Path path) { throw new UnsupportedOperationException() }
    void checkAccess(Path path, AccessMode... modes) { readAttributes(path, BasicFileAttributes) }

    def <V extends FileAttributeView> V getFileAttributeView(Path path, Class<V> type, LinkOption... options) { null }

    def <A extends BasicFileAttributes> A readAttributes(Path path, Class<A> type, LinkOption... options) {
        if (type != BasicFileAttributes) throw new UnsupportedOperationException()
        try {
            return library.readAttributes(file(path), type, options)
        } catch (NoSuchFileException missing) {
            final entries = newDirectoryStream(path, null)
            if (!entries.iterator().hasNext()) throw missing
            return library.readAttributes(folder(path), type, options)
        }
    }

    Map<String, Object> readAttributes(Path path, String names, LinkOption... options) {
        throw new UnsupportedOperationException()
    }

    void setAttribute(Path path, String name, Object value, LinkOption... options) {
        throw new UnsupportedOperationException()
    }
}

// By which Nextflow finds it.
@CompileStatic
class Buckets extends FileSystemPathFactory {
    private final Store store = new Store()

    protected Path parseUri(String uri) {
        uri.startsWith('s3://') ? store.getPath(new URI(null, null, uri, null, null)) : null
    }

    protected String toUriString(Path path) {
        path instanceof BucketPath ? "s3://${path.bucket.name}${path.toAbsolutePath()}" : null
    }

    // Tasks move their files themselves.
    protected String getBashLib(Path path) { null }
    protected String getUploadCmd(String source, Path target) { null }
}

// What it remembers of tasks, for `-resume`, has paths in it.
@CompileStatic
class BucketsRemembered implements SerializerRegistrant {
    void register(Map<Class, Object> serializers) { serializers.put(BucketPath, BucketPathSerializer) }
}

@CompileStatic
class BucketPathSerializer extends Serializer<Path> {
    void write(Kryo kryo, Output output, Path path) { output.writeString(path.toUri().toString()) }
    Path read(Kryo kryo, Input input, Class<Path> type) { FileHelper.asPath(input.readString()) }
}
