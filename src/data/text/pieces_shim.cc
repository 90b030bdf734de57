// SentencePiece (Kudo and Richardson 2018) behind C functions. Nothing is thrown across them.
#include "data/text/pieces_shim.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

int fail(char *why, const char *what) {
    std::snprintf(why, LL_PIECES_WHY, "%s", what);
    return 0;
}

class Lines : public sentencepiece::SentenceIterator {
  public:
    Lines(const char *text, size_t size) : at_(text), end_(text + size) { Next(); }
    bool done() const override { return done_; }
    const std::string &value() const override { return line_; }
    sentencepiece::util::Status status() const override { return sentencepiece::util::Status(); }
    void Next() override {
        line_.clear();
        done_ = at_ == end_;
        if (done_) return;
        line_.assign(at_, ll_pieces_line(at_, static_cast<size_t>(end_ - at_)));
        at_ += line_.size();
        if (at_ < end_ && *at_ == '\n') at_++;
    }

  private:
    const char *at_, *end_;
    std::string line_;
    bool done_ = false;
};

// The size of the name of a token that every model has, at the beginning of n bytes; 0: there is none.
size_t reserved(const char *s, size_t n) {
    unsigned byte = 0;
    char name[8];
    for (const char *known : {"<unk>", "</s>"})
        if (n >= std::strlen(known) && !std::memcmp(s, known, std::strlen(known))) return std::strlen(known);
    if (n < 6 || *s != '<') return 0;
    std::snprintf(name, sizeof name, "%.6s", s);
    if (std::sscanf(name, "<0x%2X>", &byte) != 1) return 0;
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    return std::memcmp(name, s, 6) ? 0 : 6;
}

// SentencePiece ends the program where a text has no character for a piece. Tabs and the names of tokens, which count as
// tabs, are none, and zero bytes are not counted. It takes the most frequent characters, to 99.99 % of the text. The first
// lines of most texts have enough of them.
bool has_characters(const char *text, size_t size) {
    size_t tabs = 0, others = 0;
    for (Lines lines(text, size); !lines.done() && others <= size / 9000; lines.Next()) {
        const std::string &s = lines.value();
        if (s.find("\xe2\x96\x85") != std::string::npos) continue; // its sign for unknown ones
        for (size_t i = 0, n; i < s.size(); i += n ? n : 1) {
            n = s[i] == '\t' ? 1 : reserved(s.data() + i, s.size() - i);
            if (n)
                tabs++;
            else
                others += s[i] && (s[i] & 0xc0) != 0x80;  // the first byte of a character
        }
    }
    return others > tabs / 9000;
}

}  // namespace

extern "C" int ll_pieces_shim_train(const char *text, size_t size, int vocab, void (*wait)(void), ll_pieces_take *take,
                                    void *arg, char *why) {
    try {
        // Text comes back as it was: no normalisation, blanks kept, bytes for what has no piece. The number of threads is
        // fixed, because sums depend on it.
        const std::unordered_map<std::string, std::string> options = {
            {"model_type", "unigram"},
            {"vocab_size", std::to_string(vocab)},
            {"hard_vocab_limit", "false"},
            {"normalization_rule_name", "identity"},
            {"remove_extra_whitespaces", "false"},
            {"add_dummy_prefix", "false"},
            {"byte_fallback", "true"},
            {"character_coverage", "0.9999"},
            {"unk_id", "0"},
            {"eos_id", "1"},
            {"bos_id", "-1"},
            {"pad_id", "-1"},
            {"num_threads", "4"},
            {"minloglevel", "3"},
            {"max_sentence_length", std::to_string(LL_PIECES_LONGEST)}};
        if (!has_characters(text, size))
            return fail(why, "it has nothing but tabs, zero bytes and names of tokens, such as <0x0A>; "
                             "data.format=bytes takes it");
        Lines lines(text, size);
        std::string model;
        auto trained = std::async(std::launch::async,
                                  [&] { return sentencepiece::SentencePieceTrainer::Train(options, &lines, &model); });
        while (trained.wait_for(std::chrono::seconds(1)) != std::future_status::ready) wait();
        const auto status = trained.get();
        if (!status.ok()) return fail(why, status.error_message());
        return take(arg, model.data(), model.size()) || fail(why, "");
    } catch (const std::bad_alloc &) {
        return fail(why, "");
    } catch (const std::exception &e) {
        return fail(why, e.what());
    }
}

extern "C" void *ll_pieces_shim_load(const char *model, size_t size, char *why) {
    try {
        auto p = std::make_unique<sentencepiece::SentencePieceProcessor>();  // freed also where loading throws
        const auto status = p->LoadFromSerializedProto(std::string(model, size));
        if (status.ok()) return p.release();
        fail(why, status.error_message());
    } catch (const std::bad_alloc &) {
        fail(why, "");
    } catch (const std::exception &e) {
        fail(why, e.what());
    }
    return nullptr;
}

extern "C" void ll_pieces_shim_free(void *p) { delete static_cast<sentencepiece::SentencePieceProcessor *>(p); }

extern "C" int ll_pieces_shim_count(void *p) {
    return static_cast<sentencepiece::SentencePieceProcessor *>(p)->GetPieceSize();
}

extern "C" int ll_pieces_shim_encode(void *p, const char *line, size_t size, ll_pieces_token *take, void *arg, char *why) {
    try {
        std::vector<int> ids;
        const auto status = static_cast<sentencepiece::SentencePieceProcessor *>(p)->Encode(std::string(line, size), &ids);
        if (!status.ok()) return fail(why, status.error_message());
        for (const int id : ids)
            if (!take(arg, id)) return fail(why, "");
        return 1;
    } catch (const std::bad_alloc &) {
        return fail(why, "");
    } catch (const std::exception &e) {
        return fail(why, e.what());
    }
}

extern "C" int ll_pieces_shim_byte(void *p, int byte) {
    try {
        char name[8];
        std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte) & 255);
        return static_cast<sentencepiece::SentencePieceProcessor *>(p)->PieceToId(name);
    } catch (const std::exception &) {
        return LL_PIECES_UNKNOWN;
    }
}

extern "C" size_t ll_pieces_shim_text(void *arg, int token, char *out, size_t capacity) {
    try {
        auto *p = static_cast<sentencepiece::SentencePieceProcessor *>(arg);
        std::string text = p->IdToPiece(token);
        unsigned byte = 0;
        if (p->IsByte(token) && std::sscanf(text.c_str(), "<0x%x>", &byte) == 1) text.assign(1, static_cast<char>(byte));
        static const std::string blank = "\xe2\x96\x81";  // how pieces write a space
        for (size_t i = 0; (i = text.find(blank, i)) != std::string::npos;) text.replace(i, blank.size(), " ");
        const size_t n = text.size() < capacity ? text.size() : capacity;
        std::memcpy(out, text.data(), n);
        return n;
    } catch (const std::exception &) {
        return 0;
    }
}
