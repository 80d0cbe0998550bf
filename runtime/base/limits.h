// Every hard limit in one place. A limit that an option can raise is named in the LIMIT status that reports it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvrt {

// GGUF (runtime/model)
inline constexpr uint64_t kGgufTensorsMax = 65'536;
inline constexpr uint64_t kGgufPairsMax = 65'536;
inline constexpr uint64_t kGgufKeyBytesMax = 65'535;
inline constexpr uint64_t kGgufStringBytesMax = 64u << 20;
inline constexpr uint64_t kGgufArrayLengthMax = 16u << 20;
inline constexpr uint32_t kGgufDimsMax = 4;
inline constexpr uint32_t kGgufFilesMax = 1024;  // of a split model
inline constexpr uint64_t kGgufAlignmentMax = 1u << 20;

// Models
inline constexpr uint32_t kLayersMax = 1024;
inline constexpr uint32_t kHeadsMax = 1024;
inline constexpr uint32_t kKvGroupsMax = 4;  // groups of layers of one model
inline constexpr uint32_t kHeadDimMax = 576;
inline constexpr uint32_t kExpertsMax = 1024;
inline constexpr uint32_t kWidthMax = 1u << 20;  // embedding and feed-forward width
inline constexpr uint32_t kVocabMax = 4u << 20;
inline constexpr uint32_t kContextMax = 16u << 20;

// Text
inline constexpr size_t kTextBytesMax = 64u << 20;  // one text given to the tokenizer
inline constexpr size_t kTokenBytesMax = 4096;      // a token's spelling: searches through text look so far ahead
inline constexpr size_t kJsonBytesMax = 16u << 20;
inline constexpr uint32_t kJsonDepthMax = 64;
inline constexpr uint64_t kTemplateStepsMax = 1'000'000;
inline constexpr size_t kTemplateOutputBytesMax = 4u << 20;
inline constexpr size_t kTemplateSourceBytesMax = 1u << 20;
inline constexpr size_t kTemplateTokensMax = 32'768;
inline constexpr size_t kTemplateNameBytesMax = 256;       // a variable's: looking for one has a cost of one step
inline constexpr uint64_t kTemplateRangeMax = 100'000;     // Jinja's sandbox has the same
inline constexpr size_t kTemplateMessageCharsMax = 1'000;  // raise_exception's message
inline constexpr size_t kTemplateHeapBytesMax = 16u << 20;
inline constexpr uint32_t kTemplateCallsMax = 250;       // nested steps of the interpreter: bodies, calls and expressions
inline constexpr uint32_t kTemplateDepthMax = 64;        // the source's nesting
inline constexpr uint32_t kTemplateValueDepthMax = 128;  // lists in lists
inline constexpr size_t kReplyCallBytesMax = 1u << 20;   // the part of a streamed answer that is held back while it may be a tool call
inline constexpr size_t kReplyHeaderBytesMax = 512;      // a Harmony message's header

// Grammars: the sums of these keep a compile within 1 s and 64 MiB
inline constexpr size_t kGrammarBytesMax = 1u << 20;  // a GBNF or JSON schema text
inline constexpr uint32_t kGrammarRulesMax = 10'000;
inline constexpr uint32_t kGrammarStatesMax = 500'000;
inline constexpr uint32_t kGrammarDepthMax = 64;               // groups in groups, schemas in schemas
inline constexpr uint32_t kGrammarRepeatsMax = 2'000;          // {m,n}, minItems...
inline constexpr uint32_t kSchemaStringMax = 16'384;           // a maxLength above counts as this
inline constexpr uint32_t kSchemaBranchesMax = 128;            // a oneOf's branches: each is compared with each
inline constexpr uint32_t kSchemaOrdersMax = 8;                // what may come in any order: members of constants, unique items
inline constexpr uint32_t kSchemaCountedMin = 128;             // a maxLength beside a pattern counts up to this at least
inline constexpr uint32_t kSchemaCountedStates = 1'000;        // and up to so many states
inline constexpr uint32_t kSchemaNamePatternsMax = 6;          // patterns that tell members apart by their names
inline constexpr uint32_t kSchemaOptionalMax = 1'000;          // members of an object that are not required: each may be the next
inline constexpr uint32_t kSchemaOthersMax = 1'000;            // members beside the named ones, where maxProperties counts them
inline constexpr uint32_t kSchemaChoicesMax = 5'000'000;       // schemas, members and constants that are looked at for each other
inline constexpr uint64_t kSchemaSearchStepsMax = 20'000'000;  // the work of patterns in constants and names
inline constexpr uint32_t kPatternNodesMax = 100'000;          // a pattern as it is read
inline constexpr uint32_t kPatternStepsMax = 2'000'000;        // the work of making patterns deterministic
inline constexpr uint32_t kPatternRepeatsMin = 128;            // a long piece's maximum counts up to this at least
inline constexpr uint32_t kPatternStatesMax = 20'000;          // and the states that it gives
inline constexpr uint32_t kGrammarConfigsMax = 4'096;          // readings of one text that are followed at a time
inline constexpr uint32_t kMarkSpaceMax = 16;                  // white space next to a mark that an answer's mask takes
inline constexpr uint32_t kGrammarStackMax = 16'384;           // rules within rules, in a text
inline constexpr size_t kGrammarCacheBytesMax = 16u << 20;     // states and masks of one grammar, before they are begun anew
inline constexpr uint64_t kGrammarMaskStepsMax = 1'000'000;    // the readings that one mask's steps lead to

// KV and engine
inline constexpr uint32_t kBlockTokensDefault = 32;
inline constexpr uint64_t kStateEvery = 1024;  // tokens between states that are kept, in memory and in the store: the most to compute again
inline constexpr uint32_t kBlockTokensMin = 16;
inline constexpr uint32_t kBlockTokensMax = 256;
inline constexpr size_t kItemBytesMax = 255;    // of one item of a block (block_items.h)
inline constexpr size_t kBlockItemsMax = 1024;  // a block's
inline constexpr uint32_t kStepRowsMax = 512;   // rows of one step: prefill chunks and decodes together
inline constexpr uint32_t kLogitsRowsMax = 64;  // the rows with logits among them: 64 x 49,152 floats are 12 MB
inline constexpr uint32_t kPoolBlocksMin = 2;   // the blocks of a model's pool
inline constexpr uint32_t kPoolBlocksMax = (1u << 28) - 1;
inline constexpr uint32_t kStepMsDefault = 50;  // a step's time, as far as it takes on prompts
inline constexpr uint32_t kStepMsMax = 60'000;
inline constexpr uint32_t kLoneStepMs = 500;  // the default for a prompt that nobody waits behind
inline constexpr uint32_t kTopLogprobsMax = 64;
inline constexpr uint32_t kDraftTokensMax = 32;  // proposed for a session's step
inline constexpr size_t kPredictionBytesMax = 1 << 20;
inline constexpr uint32_t kDraftTokensDefault = 16;
inline constexpr uint32_t kUnreadEventsMax = 64;  // a session that nobody reads stops here
inline constexpr uint32_t kStopStringsMax = 16;
inline constexpr uint32_t kStopBytesMax = 256;
inline constexpr uint32_t kThreadsMax = 256;
inline constexpr uint32_t kCallsMax = 1'000;             // calls of one answer
inline constexpr uint32_t kGrammarsKept = 16;            // compiled grammars that a model keeps for the next generation
inline constexpr size_t kGrammarsKeptBytes = 64u << 20;  // of them, with their masks
inline constexpr uint32_t kReasoningLookBack = 64;       // tokens at a prompt's end that may have opened the model's reasoning
inline constexpr uint32_t kSessionsMax = 65'536;         // open sessions of one model

// Autosave
inline constexpr int kSaverNice = 5;                        // the niceness of the saver's thread
inline constexpr uint64_t kSaverPause = 4;                  // while sessions generate, it rests so many times as long as a portion took,
inline constexpr uint64_t kSaverPauseMaxNs = 50'000'000;    // at most so long
inline constexpr uint32_t kAutosaveIdleMsMax = 86'400'000;  // a day

// Store
inline constexpr size_t kNameBytesMax = 255;  // session names and domains, UTF-8
inline constexpr uint64_t kChunkBytesMax = 1u << 30;
inline constexpr uint64_t kPackRatioMax = 4096;  // a payload that is packed whole is at most so many times its frame's part
inline constexpr uint64_t kWriteWaitMs = 5'000;  // the wait for another process that writes
inline constexpr uint32_t kSegmentChunksMax = 1u << 20;
inline constexpr uint64_t kRepairGuessesMax = 20'000'000;       // guesses at lost parents and heads: hashes, some 10 s
inline constexpr uint64_t kTtlSecondsMax = 36'500ull * 86'400;  // 100 years

}  // namespace kvrt
