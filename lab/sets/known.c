/* Published data sets, and those that are generated here. Checksums are of the published files. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/synthetic/listops.h"
#include "sets/music_make.h"
#include "sets/pathfinder.h"
#include "longline-lab.h"

#define MNIST "https://ossci-datasets.s3.amazonaws.com/mnist/"
#define FASHION "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
#define WIKITEXT "https://wikitext.smerity.com/"
#define UNIPROT                                                                                                        \
    "https://ftp.uniprot.org/pub/databases/uniprot/current_release/knowledgebase/reference_proteomes/"

static const ll_known_file known[] = {
    {"mnist", "train-images-idx3-ubyte.gz", MNIST "train-images-idx3-ubyte.gz",
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", "60,000 handwritten digits, 28 x 28"},
    {"mnist", "train-labels-idx1-ubyte.gz", MNIST "train-labels-idx1-ubyte.gz",
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", "their classes"},
    {"mnist", "t10k-images-idx3-ubyte.gz", MNIST "t10k-images-idx3-ubyte.gz",
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", "10,000 more to test on"},
    {"mnist", "t10k-labels-idx1-ubyte.gz", MNIST "t10k-labels-idx1-ubyte.gz",
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", "their classes"},
    {"fashion-mnist", "train-images-idx3-ubyte.gz", FASHION "train-images-idx3-ubyte.gz",
     "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", "60,000 clothes, 28 x 28"},
    {"fashion-mnist", "train-labels-idx1-ubyte.gz", FASHION "train-labels-idx1-ubyte.gz",
     "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", "their classes"},
    {"fashion-mnist", "t10k-images-idx3-ubyte.gz", FASHION "t10k-images-idx3-ubyte.gz",
     "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", "10,000 more to test on"},
    {"fashion-mnist", "t10k-labels-idx1-ubyte.gz", FASHION "t10k-labels-idx1-ubyte.gz",
     "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", "their classes"},
    {"cifar10", "cifar-10-binary.tar.gz", "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", "60,000 images, 32 x 32", .archive = 1,
     .strip = 1},
    {"wikitext-2", "wikitext-2-v1.zip", WIKITEXT "wikitext-2-v1.zip",
     "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c", "2 million words", .archive = 1, .strip = 1},
    {"wikitext-103", "wikitext-103-v1.zip", WIKITEXT "wikitext-103-v1.zip",
     "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590", "103 million words", .archive = 1, .strip = 1},
    {"imdb", "aclImdb_v1.tar.gz", "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
     "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe", "50,000 film reviews", .archive = 1,
     .strip = 1},
    /* Published without a checksum. */
    {"lra", "lra_release.gz", "https://storage.googleapis.com/long-range-arena/lra_release.gz", NULL,
     "ListOps, retrieval and pathfinder, 7.7 GB", .archive = 1, .strip = 2},
    /* Of the current release: no checksums. */
    {"protein", "train/UP000000625_83333.fasta.gz", UNIPROT "Bacteria/UP000000625/UP000000625_83333.fasta.gz", NULL,
     "proteins of Escherichia coli K-12"},
    {"protein", "train/UP000001570_224308.fasta.gz", UNIPROT "Bacteria/UP000001570/UP000001570_224308.fasta.gz", NULL,
     "of Bacillus subtilis"},
    {"protein", "train/UP000001584_83332.fasta.gz", UNIPROT "Bacteria/UP000001584/UP000001584_83332.fasta.gz", NULL,
     "of Mycobacterium tuberculosis"},
    {"protein", "test/UP000002311_559292.fasta.gz", UNIPROT "Eukaryota/UP000002311/UP000002311_559292.fasta.gz", NULL,
     "of yeast, to test on"},
};

const ll_known_file *ll_data_known(int i) {
    return i >= 0 && (size_t)i < sizeof known / sizeof *known ? &known[i] : NULL;
}

static ll_status make_listops(const char *out, int64_t count, int size, uint64_t seed, ll_done_fn *progress,
                              void *arg) {
    ll_listops how = {.depth = 10, .arguments = 10, .least = 500, .most = 2000};
    if (size && size < 6)
        return ll_fail(LL_EINVAL, "listops of size %d; expressions have fewer tokens than --size, which is 6 at least",
                       size);
    if (size) how.most = size;
    if (size && size < 2000) how.least = size / 4; /* as in the arena, a quarter of the longest */
    const ll_status status = ll_folder_create_for(out);
    return status ? status : ll_listops_write(out, &how, count, seed, progress, arg);
}

/* distractors: how many, or -1 for as many as is usual. */
static ll_status make_pathfinder(const char *out, int64_t count, int size, int segments, int distractors, uint64_t seed,
                                 ll_done_fn *progress, void *arg) {
    ll_pathfinder p;
    ll_status status = ll_pathfinder_standard(&p, size ? size : 32, segments);
    if (distractors >= 0) p.distractors = distractors;
    if (!status) status = ll_folder_create(out);
    if (status) return status;
    char *images = ll_path_join(out, "images-idx3-ubyte"), *labels = ll_path_join(out, "labels-idx1-ubyte");
    status = images && labels ? ll_pathfinder_write(images, labels, &p, count, seed, progress, arg) : LL_ENOMEM;
    ll_free(images);
    ll_free(labels);
    return status;
}

/* "pathfinder", "pathfinder-SEGMENTS" or "pathfinder-SEGMENTS-DISTRACTORS"? */
static int is_pathfinder(const char *what, int *segments, int *distractors) {
    int end = 0;
    *segments = 14;
    *distractors = -1;
    if (!strcmp(what, "pathfinder")) return 1;
    if (what[strspn(what, "pathfinder-0123456789")]) return 0; /* sscanf would take spaces */
    if (sscanf(what, "pathfinder-%3d%n-%4d%n", segments, &end, distractors, &end) == 2 && *distractors < 0) return 0;
    return end && !what[end];
}

static ll_status make(const char *what, const char *out, int64_t count, int size, uint64_t seed, ll_done_fn *progress,
                      void *arg) {
    int segments, distractors;
    if (count < 1 || count > INT32_MAX) return ll_fail(LL_EINVAL, "%lld examples cannot be made", (long long)count);
    if (!strcmp(what, "listops")) return make_listops(out, count, size, seed, progress, arg);
    if (is_pathfinder(what, &segments, &distractors))
        return make_pathfinder(out, count, size, segments, distractors, seed, progress, arg);
    if (!strcmp(what, "music")) return ll_music_write(out, size ? size : 32, count, seed, progress, arg);
    return ll_fail(LL_EINVAL,
                   "there is no generator of \"%s\"; there are listops, pathfinder (or pathfinder-1 to -14, "
                   "-6-3 with 3 distractors) and music",
                   what);
}

/* The length of the shortest folder of a path that does not exist; that of the path at most. */
static size_t first_missing(const char *path, char *part) {
    size_t n = strlen(path);
    for (size_t i = 1; i < n; i++) {
        if (path[i] != '/') continue;
        part[i] = 0;
        if (access(part, F_OK)) n = i;
        part[i] = '/';
    }
    return n;
}

ll_status ll_data_make(const char *what, const char *out, int64_t count, int size, uint64_t seed, ll_done_fn *progress,
                       void *arg) {
    const int was = !access(out, F_OK);
    char *part = ll_strdup(out);
    if (!part) return LL_ENOMEM;
    const size_t first = first_missing(out, part);
    const ll_status status = make(what, out, count, size, seed, progress, arg);
    /* Folders that were made for it and are empty go again. */
    for (size_t n = strlen(out); status && !was && n >= first && n; n--) {
        if (part[n] && part[n] != '/') continue;
        part[n] = 0;
        rmdir(part);
    }
    ll_free(part);
    return status;
}
