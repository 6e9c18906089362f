package neutral

// Names of control tokens, lower case, over the model families that a local
// server is likely to run. Names that a template writes are found in it, so a
// family that is missing here is covered once its model is served.
const (
	// Markup that models write around calls, results and thinking; it may have
	// attributes or a value: <function=read_file>, <invoke name="x">.
	markupNames = `
		think thinking thought reasoning
		tool_call tool_calls tool_response tool_responses tool_result tool_results tool_output tool_outputs
		tools tool_list available_tools toolcall tool_declare
		function functions function_call function_calls function_response function_results function_result
		parameter invoke arg_key arg_value
		minimax:tool_call seed:think seed:tool_call seed:cot_budget_reflect`

	// Tokens that stand alone. Some are HTML or SVG elements too; those are
	// touched only in the bare form.
	exactNames = `
		s bos eos unk pad mask sep cls sop eop eod eot tool call answer
		start_of_turn end_of_turn start_of_image end_of_image image_soft_token start_of_audio end_of_audio audio_soft_token
		start_function_call end_function_call start_function_declaration end_function_declaration
		start_function_response end_function_response escape
		fim_prefix fim_middle fim_suffix fim_pad file_sep repo_name
		bos_token eos_token pad_token unk_token mask_token seed:bos seed:eos seed:pad
		begin_of_text end_of_text begin_of_sentence end_of_sentence im_start im_end image video audio`

	// <unused7>, <SPECIAL_12>, <extra_id_0>.
	numberedNames = `unused special_ extra_id_ reserved_ reserved_special_token_ dummy`

	// Between square brackets, as they are written.
	squareNames = `
		INST SYSTEM_PROMPT AVAILABLE_TOOLS TOOL_CALLS TOOL_CALL TOOL_RESULTS TOOL_RESULT TOOL_CONTENT ARGS CALL_ID
		THINK MODEL_SETTINGS IMG IMG_BREAK IMG_END BEGIN_AUDIO AUDIO TRANSCRIBE PREFIX MIDDLE SUFFIX
		BOS EOS PAD UNK CLS SEP MASK gMASK sMASK eop sop`

	// Literal tokens that fit no form.
	literalTokens = `<<SYS>> <</SYS>> ｜DSML｜ ]~b] ]~!b[ [e~[ ]!p~[ ]<]minimax[>[`
)
